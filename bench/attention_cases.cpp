#include "bench/attention_cases.h"

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
  result.label.name = kind + "-d" + text(dim) + "-t" + text(length) + "-" + mask;
  result.label.group = result.kind = kind;
  result.sizes = sizes_of(dim, length, mask);
  result.label.slow = length >= 8192;
  return result;
}

// A case that is compared with `base`, under a longer name.
AttentionCase variant(const AttentionCase& base, const std::string& group, const std::string& suffix) {
  AttentionCase result = base;
  result.label.name += "-" + suffix;
  result.label.group = group;
  result.base = base.label.name;
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
    result.label.name = std::string("both-b12-h4-d32-t64-") + mask;
    result.label.group = result.kind = "both";
    result.sizes = sizes_of(32, 64, mask);
    result.sizes.batch = 12;
    result.sizes.heads = result.sizes.kv_heads = 4;
    cases.push_back(result);
  }
}

void add_window_case(std::vector<AttentionCase>& cases) {
  AttentionCase result = plain_case("forward", 64, 8192, "window");
  result.label.name = "forward-d64-t8192-window512";
  result.label.group = "window";
  result.base = "forward-d64-t8192-dense";
  result.sizes.window = 512;
  cases.push_back(result);
}

void add_grouped_cases(std::vector<AttentionCase>& cases) {
  for (const char* mask : {"dense", "causal"}) {
    AttentionCase result = plain_case("forward", 128, 512, mask);
    result.label.name = std::string("forward-h32-kv8-d128-t512-") + mask;
    result.label.group = "gqa";
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
    result.label.name = "length-h1-d64-t" + text(length);
    result.label.group = "length";
    result.sizes.heads = result.sizes.kv_heads = 1;
    if (length > 512) result.base = "length-h1-d64-t512";
    cases.push_back(result);
  }
}

// The whole layer, x → y: the projections of q, k and v in one product, attention, the output projection.
AttentionCase layer_case(const std::string& kind, const std::string& mask) {
  AttentionCase result = plain_case(kind, 64, 512, mask);
  result.label.name = "layer-" + kind + "-d64-t512-" + mask;
  result.label.group = "layer";
  result.sizes.layout = "qkv";
  result.sizes.width = 512;
  return result;
}

void add_layer_cases(std::vector<AttentionCase>& cases) {
  const AttentionCase forward = layer_case("forward", "causal");
  AttentionCase packed = variant(forward, "layer", "packed");
  packed.sizes.packed = true;
  cases.insert(cases.end(), {forward, packed, layer_case("both", "causal")});
  for (const char* kind : {"forward", "both"}) {
    cases.push_back(variant(layer_case(kind, "causal"), "layer", "rotary"));
    cases.back().sizes.option = "rotary";
    cases.push_back(variant(layer_case(kind, "causal"), "layer", "threads"));
    cases.back().all_threads = true;
  }
}

// Entropy, largest score and top 5 keys of 4 rows, beside computing those rows.
void add_insight_cases(std::vector<AttentionCase>& cases) {
  AttentionCase forward = plain_case("forward", 64, 32768, "dense");
  forward.label.name = "forward-d64-q4-t32768";
  forward.label.group = "insight";
  forward.label.slow = true;
  forward.sizes.t_q = 4;
  AttentionCase insight = forward;
  insight.label.name = "insight-d64-q4-t32768";
  insight.kind = "insight";
  insight.base = forward.label.name;
  cases.insert(cases.end(), {forward, insight});
}

// Each score option beside the plain kernel, with the gradient of what it learns.
void add_option_cases(std::vector<AttentionCase>& cases) {
  const auto add = [&](const char* kind, const char* mask, const char* option) {
    AttentionCase result = variant(plain_case(kind, 64, 2048, mask), "options", option);
    result.sizes.option = option;
    cases.push_back(result);
  };
  for (const char* kind : {"forward", "backward"}) {
    for (const char* option : {"alibi", "table", "cap", "sink", "sigmoid", "bias"}) add(kind, "causal", option);
    add(kind, "dense", "bias");
  }
  AttentionCase plain = plain_case("both", 64, 2048, "causal");
  plain.label.group = "options";
  cases.push_back(plain);
  add("both", "causal", "dropout");
}

// Peak resident size: the score matrix of these sizes would need 34 GB.
void add_memory_cases(std::vector<AttentionCase>& cases) {
  for (const char* mask : {"dense", "causal"}) {
    AttentionCase result = plain_case("memory", 64, 32768, mask);
    result.label.slow = std::string(mask) == "dense";
    result.label.only_if_named = result.all_threads = true;
    cases.push_back(result);
  }
}

// A case that takes more operations a round, with what it is compared with, is none of --quick: together those that
// are left take less than a minute at 25 GFLOP/s.
constexpr double kMostQuickFlops = 9e9;

double round_flops(const AttentionCase& each, const std::vector<AttentionCase>& cases) {
  double flops = attention_flops(each.kind, each.sizes);
  for (const AttentionCase& other : cases) {
    if (other.label.name == each.base) flops += attention_flops(other.kind, other.sizes);
  }
  return flops;
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
  add_layer_cases(cases);
  add_insight_cases(cases);
  add_option_cases(cases);
  add_memory_cases(cases);
  for (AttentionCase& each : cases) {
    if (each.kind != "memory" && round_flops(each, cases) > kMostQuickFlops) each.label.slow = true;
  }
  return cases;
}

}  // namespace

const std::vector<AttentionCase>& attention_cases() {
  static const std::vector<AttentionCase> cases = make_cases();
  return cases;
}

Mask mask_of(const AttentionSizes& sizes) {
  if (sizes.mask == "causal") return Mask::causal();
  if (sizes.mask == "window") return Mask::window(sizes.window - 1, 0);
  return {};
}

double attention_flops(const std::string& kind, const AttentionSizes& sizes) {
  const int64_t pairs = mask_of(sizes).visible_pairs({sizes.batch, sizes.heads, sizes.t_q, sizes.t_k});
  const double attention = 4.0 * static_cast<double>(sizes.dim) * static_cast<double>(pairs);
  // W_Q and W_O for every query, W_K and W_V for every key; none where width is 0.
  const int64_t outputs = 2 * sizes.dim * (sizes.t_q * sizes.heads + sizes.t_k * sizes.kv_heads);
  const double projections = 2.0 * static_cast<double>(sizes.batch * sizes.width * outputs);
  if (kind == "forward" || kind == "insight") return attention + projections;
  if (kind == "backward") return 2.5 * attention + 2 * projections;
  check(kind == "both", "attention_flops", "unknown kind ", kind, "; give forward, backward, both or insight");
  return 3.5 * attention + 3 * projections;
}

}  // namespace heed::bench
