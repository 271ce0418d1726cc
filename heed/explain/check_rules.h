// The options of a check file: heads, scale, soft cap, bias, mask, normaliser.
#pragma once

#include "heed/explain/nested_numbers.h"

namespace heed::explain {

// The top level of a check file.
struct CheckFileTable {
  const io::TomlValue& table;
  const std::string& path;

  bool has(const std::string& name) const { return table.find(name) != nullptr; }
  // The value of a name that is present.
  NamedValue at(const std::string& name) const { return {*table.find(name), path, name}; }
};

// title, heads, mask, …: every name that is not a step.
const std::vector<std::string>& option_names();

// The options that need no sizes: heads, kv_heads, scale, d_k, softcap, sinks, normalizer.
StepRules read_rules(const CheckFileTable& file);

// Adds bias and mask, which must fit the scores: [H, t_q, t_k].
void read_bias_and_mask(const CheckFileTable& file, int64_t t_q, int64_t t_k, StepRules& rules);

// A line of text without control characters; empty if the name is absent.
std::string read_text(const CheckFileTable& file, const std::string& name);

}  // namespace heed::explain
