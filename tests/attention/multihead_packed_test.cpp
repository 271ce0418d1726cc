// The layer with weights that were packed once.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "heed/core/bf16.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_case.h"

namespace heed::test {
namespace {

// Widths past a block of matmul's depth and of no multiple of a panel.
LayerSizes wide_sizes() {
  LayerSizes sizes;
  sizes.t_q = 37;
  sizes.t_k = 41;
  sizes.c_q = 300;
  sizes.c_k = 65;
  sizes.c_v = 70;
  sizes.d_k = 17;
  sizes.d_v = 33;
  sizes.c_out = 77;
  return sizes;
}

LayerSizes wide_self_sizes() {
  LayerSizes sizes = wide_sizes();
  sizes.self = true;
  sizes.t_k = sizes.t_q;
  sizes.c_k = sizes.c_v = sizes.c_q;
  return sizes;
}

void forward_packed(Layer& layer, const PackedMultiHead& packed) {
  multihead_forward(layer.inputs(), packed, layer.options, layer.state, layer.y.view<3>());
}

void expect_same_bits_packed(const LayerSizes& sizes, const Mask& mask) {
  const int before = threads();
  on_every_isa([&] {
    Layer layer(sizes);
    layer.options.attention.mask = mask;
    layer.forward();
    const std::vector<float> expected = floats(layer.y);
    const PackedMultiHead packed(layer.parameters());
    for (const int count : {1, 3}) {
      set_threads(count);
      std::ranges::fill(layer.y.values(), -1.0F);
      forward_packed(layer, packed);
      EXPECT_TRUE(same_bits(floats(layer.y), expected)) << count << " threads";
    }
    set_threads(before);
  });
}

TEST(PackedMultiHead, GivesTheSameBitsAsPlainWeights) {
  expect_same_bits_packed(wide_self_sizes(), Mask::causal());
  expect_same_bits_packed(wide_sizes(), Mask());
  expect_same_bits_packed(self_sizes(), Mask());
  expect_same_bits_packed({}, Mask());
}

TEST(PackedMultiHead, GivesTheSameBitsForOneToken) {
  LayerSizes sizes = wide_self_sizes();
  sizes.batch = 1;
  sizes.t_q = sizes.t_k = 1;
  expect_same_bits_packed(sizes, Mask());
}

TEST(PackedMultiHead, GivesTheSameBitsWithoutBiasesAndWithoutOutputProjection) {
  LayerSizes sizes = wide_self_sizes();
  sizes.biases = false;
  expect_same_bits_packed(sizes, Mask());
  sizes.w_o = false;
  expect_same_bits_packed(sizes, Mask());
}

TEST(PackedMultiHead, IsAValueOfItsOwnMemory) {
  Layer layer(wide_sizes());
  layer.forward();
  const std::vector<float> expected = floats(layer.y);
  const PackedMultiHead packed(layer.parameters());
  const PackedMultiHead copy = packed;
  for (Tensor* tensor : {&layer.weight, &layer.bias, &layer.w_out, &layer.out_bias}) {
    std::ranges::fill(tensor->values(), 0.0F);
  }
  forward_packed(layer, copy);
  EXPECT_TRUE(same_bits(floats(layer.y), expected));
}

TEST(PackedMultiHead, BackwardMayFollowWithThePlainParameters) {
  for (const LayerSizes& sizes : {wide_self_sizes(), wide_sizes()}) {
    Layer plain(sizes);
    plain.run();
    Layer layer(sizes);
    forward_packed(layer, PackedMultiHead(layer.parameters()));
    layer.backward();
    EXPECT_TRUE(same_bits(floats(layer.d_weight), floats(plain.d_weight)));
    EXPECT_TRUE(same_bits(floats(layer.d_x[0]), floats(plain.d_x[0])));
  }
}

// The weights of a layer, rounded: what bf16 stores.
void round_weights(Layer& layer) {
  for (Tensor* tensor : {&layer.weight, &layer.w_out}) {
    for (float& value : tensor->values()) value = from_bf16(to_bf16(value));
  }
}

TEST(PackedMultiHead, InBf16GivesTheBitsOfRoundedWeights) {
  LayerSizes one_token = wide_self_sizes();
  one_token.batch = 1;
  one_token.t_q = one_token.t_k = 1;
  LayerSizes bare = wide_sizes();
  bare.biases = bare.w_o = false;
  on_every_isa([&] {
    for (const LayerSizes& sizes : {wide_self_sizes(), wide_sizes(), one_token, bare}) {
      Layer layer(sizes);
      const PackedMultiHead packed(layer.parameters(), WeightStorage::bf16);
      round_weights(layer);
      layer.forward();
      const std::vector<float> expected = floats(layer.y);
      std::ranges::fill(layer.y.values(), -1.0F);
      forward_packed(layer, packed);
      EXPECT_TRUE(same_bits(floats(layer.y), expected));
    }
  });
}

TEST(PackedMultiHead, InBf16HasNoBackward) {
  Layer layer(wide_self_sizes());
  const PackedMultiHead packed(layer.parameters(), WeightStorage::bf16);
  forward_packed(layer, packed);
  std::ranges::fill(layer.d_weight.values(), -1.0F);
  expect_error("multihead_backward", [&] { layer.backward(); }, {"bf16", "packed in f32"});
  EXPECT_TRUE(std::ranges::all_of(layer.d_weight.values(), [](float value) { return value == -1.0F; }));
  // One weight in bf16 is enough.
  PackedMultiHead mixed(layer.parameters());
  mixed.out = packed.out;
  forward_packed(layer, mixed);
  expect_error("multihead_backward", [&] { layer.backward(); }, {"bf16"});
  layer.run();
}

TEST(PackedMultiHead, IsRefusedUnderAnotherInstructionSet) {
  if (supported_isas().size() < 2) GTEST_SKIP() << "one instruction set only";
  const Isa before = isa();
  Layer layer(self_sizes());
  set_isa(supported_isas().front());
  const PackedMultiHead packed(layer.parameters());
  set_isa(supported_isas().back());
  std::ranges::fill(layer.y.values(), -1.0F);
  try {
    forward_packed(layer, packed);
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("multihead_forward"), 0U) << text;
    EXPECT_NE(text.find("pack them again"), std::string::npos) << text;
  }
  EXPECT_EQ(layer.y.values()[0], -1.0F);
  set_isa(before);
}

TEST(PackedMultiHead, OfNothingIsRefused) {
  Layer layer(self_sizes());
  EXPECT_THROW(forward_packed(layer, PackedMultiHead()), Error);
}

}  // namespace
}  // namespace heed::test
