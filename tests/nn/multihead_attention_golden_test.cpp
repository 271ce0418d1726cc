// MultiheadAttention beside PyTorch's, with all its options: outputs and all gradients within 8e-6 of the largest
// value.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "heed/nn/multihead_attention.h"
#include "tests/support/module_golden.h"

namespace heed::test {
namespace {

constexpr double kTolerance = 8e-6;

nn::MultiheadAttentionOptions options_of(const NnGolden& golden) {
  return {.width = golden.option<int64_t>("arguments/embed_dim"),
          .heads = golden.option<int64_t>("arguments/num_heads"),
          .key_width = golden.option<int64_t>("arguments/kdim", 0),
          .value_width = golden.option<int64_t>("arguments/vdim", 0),
          .bias = golden.option("arguments/bias", true),
          .bias_kv = golden.option("arguments/add_bias_kv", false),
          .zero_kv = golden.option("arguments/add_zero_attn", false)};
}

// x alone; x and a context; x, key and value.
Var called(const nn::MultiheadAttention& attention, GoldenInputs& in, const nn::MultiheadAttentionCall& call) {
  const NnGolden& golden = in.golden();
  if (golden.has("in/context")) return attention(in["x"], in["context"], in["context"], call);
  if (golden.has("in/key")) return attention(in["x"], in["key"], in["value"], call);
  return attention(in["x"], call);
}

TEST(MultiheadAttentionGolden, EveryOptionIsPyTorchs) {
  const std::vector<NnGolden> goldens = load_nn_goldens("multihead");
  EXPECT_EQ(goldens.size(), 20U);
  for (const NnGolden& golden : goldens) {
    nn::MultiheadAttention attention(options_of(golden));
    Tensor bias;
    nn::MultiheadAttentionCall call;
    if (golden.option<std::string>("masks/attn_mask", "") == "float") {
      bias = golden.tensor("in/attn_mask");  // [Tq, Tk]
      call.bias = {bias.values().data(), {1, 1, bias.shape()[0], bias.shape()[1]}};
    } else {
      call.mask = golden_mask(golden, std::array<std::string, 2>{"attn_mask", "key_padding_mask"});
    }
    expect_golden(golden, nn::parameters(attention), [&](GoldenInputs& in) { return called(attention, in, call); },
                  {.tolerance = kTolerance, .constants = {"attn_mask"}});
  }
}

// in_proj_weight is the rows of q_proj.weight, k_proj.weight and v_proj.weight.
GoldenParameter joined_projections(const NnGolden& golden) {
  return [&golden](const std::string& kind, const std::string& name) {
    if (!name.starts_with("in_proj_")) return golden.doubles(kind + name);
    Doubles result;
    for (const std::string part : {"q_proj.", "k_proj.", "v_proj."}) {
      const Doubles& from = golden.doubles(kind + part + name.substr(std::string("in_proj_").size()));
      result.values.insert(result.values.end(), from.values.begin(), from.values.end());
    }
    return result;
  };
}

TEST(MultiheadAttentionGolden, GroupedHeadsRotaryPositionsAndAlibiAreTheFormulas) {
  const std::vector<NnGolden> goldens = load_nn_goldens("grouped_attention");
  EXPECT_EQ(goldens.size(), 8U);
  for (const NnGolden& golden : goldens) {
    nn::MultiheadAttentionOptions options{.width = golden.option<int64_t>("arguments/width"),
                                          .heads = golden.option<int64_t>("arguments/heads"),
                                          .kv_heads = golden.option<int64_t>("arguments/kv_heads"),
                                          .bias = golden.option("arguments/bias", false),
                                          .alibi = golden.option("arguments/alibi", false)};
    if (golden.has_option("arguments/rotary")) {
      const bool halves = golden.option<std::string>("arguments/rotary") == "halves";
      options.rotary = {.pairing = halves ? RotaryPairing::halves : RotaryPairing::interleaved,
                        .base = golden.option("arguments/base", 10000.0),
                        .width = options.width / options.heads,
                        .positions = 8};
    }
    nn::MultiheadAttention attention(options);
    const Mask mask = golden.option("arguments/causal", true) ? Mask::causal() : Mask();
    expect_golden(golden, nn::parameters(attention),
                  [&](GoldenInputs& in) { return attention(in["x"], {.mask = mask}); },
                  {.tolerance = kTolerance, .parameter = joined_projections(golden)});
  }
}

}  // namespace
}  // namespace heed::test
