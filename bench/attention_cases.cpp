#include "bench/attention_cases.h"

#include <algorithm>

#include "heed/core/error.h"

namespace heed::bench {
namespace {

std::string text(int64_t value) { return std::to_string(value); }

// Batch 1, 8 heads: the sizes of most rows.
AttentionSizes sizes_of(int64_t dim, int64_t length, const std::string& mask) {
  AttentionSizes sizes;
  sizes.mask = mask;
  sizes.heads = sizes.kv_heads = 8;
  sizes.dim = dim;
  sizes.t_q = sizes.t_k = length;
  return sizes;
}

AttentionCase plain_case(const std::string& kind, int64_t dim, int64_t length, const std::string& mask) {
  AttentionCase result;
  result.name = kind + "-d" + text(dim) + "-t" + text(length) + "-" + mask;
  result.group = result.kind = kind;
  result.sizes = sizes_of(dim, length, mask);
  result.slow = length >= 8192;
  return result;
}

// A case that is compared with `base`, under a longer name.
AttentionCase variant(const AttentionCase& base, const std::string& group, const std::string& suffix) {
  AttentionCase result = base;
  result.name += "-" + suffix;
  result.group = group;
  result.base = base.name;
  return result;
}

void add_plain_cases(std::vector<AttentionCase>& cases, const std::string& kind, int64_t dim,
                     const std::vector<int64_t>& lengths) {
  for (const char* mask : {"dense", "causal"}) {
    for (const int64_t length : lengths) cases.push_back(plain_case(kind, dim, length, mask));
  }
}

void add_small_cases(std::vector<AttentionCase>& cases) {
  for (const char* mask : {"dense", "causal"}) {
    AttentionCase result;
    result.name = std::string("both-b12-h4-d32-t64-") + mask;
    result.group = result.kind = "both";
    result.sizes = sizes_of(32, 64, mask);
    result.sizes.batch = 12;
    result.sizes.heads = result.sizes.kv_heads = 4;
    cases.push_back(result);
  }
}

void add_window_case(std::vector<AttentionCase>& cases) {
  AttentionCase result = plain_case("forward", 64, 8192, "window");
  result.name = "forward-d64-t8192-window512";
  result.group = "window";
  result.base = "forward-d64-t8192-dense";
  result.sizes.window = 512;
  cases.push_back(result);
}

void add_grouped_cases(std::vector<AttentionCase>& cases) {
  for (const char* mask : {"dense", "causal"}) {
    AttentionCase result = plain_case("forward", 128, 512, mask);
    result.name = std::string("forward-h32-kv8-d128-t512-") + mask;
    result.group = "gqa";
    result.sizes.heads = 32;
    cases.push_back(result);
  }
}

void add_layout_cases(std::vector<AttentionCase>& cases) {
  for (const char* kind : {"forward", "backward"}) {
    for (const int64_t length : {512, 2048}) {
      for (const char* layout : {"bthd", "qkv"}) {
        AttentionCase result = variant(plain_case(kind, 64, length, "dense"), "layout", layout);
        result.sizes.layout = layout;
        cases.push_back(result);
      }
    }
  }
}

void add_thread_cases(std::vector<AttentionCase>& cases) {
  for (const char* kind : {"forward", "backward"}) {
    for (const char* mask : {"dense", "causal"}) {
      for (const int64_t length : {512, 2048}) {
        AttentionCase result = variant(plain_case(kind, 64, length, mask), "threads", "threads");
        result.all_threads = true;
        cases.push_back(result);
      }
    }
  }
}

// One head, so that the longest row stays affordable: the cost of a visible pair must not grow with the length.
void add_length_cases(std::vector<AttentionCase>& cases) {
  for (const int64_t length : {512, 2048, 8192, 32768}) {
    AttentionCase result = plain_case("forward", 64, length, "dense");
    result.name = "length-h1-d64-t" + text(length);
    result.group = "length";
    result.sizes.heads = result.sizes.kv_heads = 1;
    if (length > 512) result.base = "length-h1-d64-t512";
    cases.push_back(result);
  }
}

// Peak resident size: the score matrix of these sizes would need 34 GB.
void add_memory_cases(std::vector<AttentionCase>& cases) {
  for (const char* mask : {"dense", "causal"}) {
    AttentionCase result = plain_case("memory", 64, 32768, mask);
    result.slow = std::string(mask) == "dense";
    cases.push_back(result);
  }
}

std::vector<AttentionCase> make_cases() {
  std::vector<AttentionCase> cases;
  add_plain_cases(cases, "forward", 64, {128, 512, 2048, 8192});
  add_plain_cases(cases, "forward", 128, {512, 2048});
  add_plain_cases(cases, "backward", 64, {512, 2048});
  add_plain_cases(cases, "backward", 128, {512, 2048});
  add_small_cases(cases);
  add_window_case(cases);
  add_grouped_cases(cases);
  add_layout_cases(cases);
  add_thread_cases(cases);
  add_length_cases(cases);
  add_memory_cases(cases);
  return cases;
}

}  // namespace

const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> cases = make_cases();
  return cases;
}

bool is_attention_case(const std::string& name_or_group) {
  return std::ranges::any_of(attention_cases(), [&](const AttentionCase& each) {
    return each.name == name_or_group || each.group == name_or_group;
  });
}

std::vector<std::string> attention_case_names() {
  std::vector<std::string> names;
  for (const AttentionCase& each : attention_cases()) {
    if (std::ranges::find(names, each.group) == names.end()) names.push_back(each.group);
  }
  for (const AttentionCase& each : attention_cases()) names.push_back(each.name);
  return names;
}

std::vector<AttentionCase> select_attention_cases(const Selection& selection) {
  const bool asked = !selection.names.empty() || !selection.matching.empty();
  std::vector<AttentionCase> chosen;
  for (const AttentionCase& each : attention_cases()) {
    const bool named = std::ranges::any_of(
        selection.names, [&](const std::string& name) { return each.name == name || each.group == name; });
    if (!selection.names.empty() ? !named : each.group == "memory") continue;
    if (each.name.find(selection.matching) == std::string::npos) continue;
    if (selection.quick && each.slow && !(asked && each.group != "memory")) continue;
    chosen.push_back(each);
  }
  return chosen;
}

Mask mask_of(const AttentionSizes& sizes) {
  if (sizes.mask == "causal") return Mask::causal();
  if (sizes.mask == "window") return Mask::window(sizes.window - 1, 0);
  return {};
}

double attention_flops(const std::string& kind, const AttentionSizes& sizes) {
  const int64_t pairs = mask_of(sizes).visible_pairs({sizes.batch, sizes.heads, sizes.t_q, sizes.t_k});
  const double forward = 4.0 * static_cast<double>(sizes.dim) * static_cast<double>(pairs);
  if (kind == "forward") return forward;
  if (kind == "backward") return 2.5 * forward;
  check(kind == "both", "attention_flops", "unknown kind ", kind, "; give forward, backward or both");
  return 3.5 * forward;
}

}  // namespace heed::bench
