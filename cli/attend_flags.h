// What `heed attend` is asked, as the user wrote it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/compute_flags.h"

namespace CLI {
class App;
}

namespace heed::cli {

struct AttendFlags {
  std::string example;
  bool list = false;

  std::string q, k, v;              // files, or FILE:NAME
  std::string x, context, weights;  // weights: FILE, or FILE:PREFIX
  std::optional<int64_t> heads, kv_heads;
  std::string layout;

  bool causal = false;
  std::string align, window, keep, block;
  std::vector<int64_t> lengths;
  std::string bias, sink;
  std::optional<float> scale, softcap;
  bool alibi = false;
  std::string normalizer;
  bool no_out = false;

  std::string rows;
  std::optional<int64_t> head;
  std::vector<std::string> steps;
  int digits = 4;
  int64_t top_k = 0;
  bool grad = false;
  std::string d_out;

  std::string out, save, html;
  bool json = false;
  ComputeFlags compute;
};

void add_attend_flags(CLI::App& command, AttendFlags& flags);

}  // namespace heed::cli
