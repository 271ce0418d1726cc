// The table of attention rows that `heed bench attention` measures.
#pragma once

#include <string>
#include <vector>

#include "bench/row.h"
#include "heed/attention/mask.h"

namespace heed::bench {

struct AttentionCase {
  std::string name;   // forward-d64-t512-causal
  std::string group;  // --case takes a name or a group
  std::string kind;   // forward, backward, both, memory
  AttentionSizes sizes;
  std::string base;          // the case it is compared with, in alternation; empty: none
  bool all_threads = false;  // runs on all threads beside the same case on one
  bool slow = false;         // left out by --quick, unless asked for
};

// Every case, in the order of the table.
const std::vector<AttentionCase>& attention_cases();

// What the user asked for.
struct Selection {
  std::vector<std::string> names;  // names or groups; none: all but the group "memory"
  std::string matching;            // a part of the name
  bool quick = false;
};

// The cases of a selection. Every name has to exist (is_attention_case).
std::vector<AttentionCase> select_attention_cases(const Selection& selection);
bool is_attention_case(const std::string& name_or_group);
// Names and groups, for hints.
std::vector<std::string> attention_case_names();

Mask mask_of(const AttentionSizes& sizes);

// Useful floating-point operations of a call: 4 · dim for each visible pair and head forward, 2.5 times that backward,
// 3.5 times for both.
double attention_flops(const std::string& kind, const AttentionSizes& sizes);

}  // namespace heed::bench
