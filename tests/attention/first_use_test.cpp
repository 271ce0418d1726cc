// What a first program writes: the one header, results as values, options by name.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/heed.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

const AttentionSizes kSizes{.batch = 2, .t_q = 6, .t_k = 9, .heads = 4, .kv_heads = 2, .d_k = 3, .d_v = 5};

Tensor normal(std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor(std::move(shape));
  Rng(seed).fill_normal(tensor.values());
  return tensor;
}

std::vector<float> floats(const Tensor& tensor) { return {tensor.values().begin(), tensor.values().end()}; }

TEST(FirstUse, AttentionAsAValueHasTheBitsOfForward) {
  const Tensor q = normal({2, 6, 4, 3}, 1), k = normal({2, 9, 2, 3}, 2), v = normal({2, 9, 2, 5}, 3);
  const AttentionOptions options{.mask = Mask::causal(QueryPositions::bottom_right()), .scale = 0.7F};
  Tensor expected({2, 6, 4, 5});
  attention_forward({q.view<4>(), k.view<4>(), v.view<4>()}, options, expected.view<4>());

  const Tensor y = attention(q, k, v, {.mask = Mask::causal(QueryPositions::bottom_right()), .scale = 0.7F});
  EXPECT_EQ(y.shape(), (std::vector<int64_t>{2, 6, 4, 5}));
  EXPECT_TRUE(same_bits(floats(y), floats(expected)));
  EXPECT_TRUE(same_bits(floats(attention(q.view<4>(), k.view<4>(), v.view<4>(), options)), floats(expected)));
  EXPECT_FALSE(same_bits(floats(attention(q, k, v)), floats(expected)));
}

TEST(FirstUse, FromBhtdReadsPyTorchsOrderInPlace) {
  for (const bool grouped : {false, true}) {
    AttentionSizes sizes = kSizes;
    sizes.kv_heads = grouped ? 2 : 4;
    AttentionCase c(sizes, Layout::bthd, 1);
    c.forward();
    // The same numbers as PyTorch would have them.
    const auto as_bhtd = [](View<const float, 4> bthd) {
      Tensor tensor({bthd.size(0), bthd.size(2), bthd.size(1), bthd.size(3)});
      auto to = tensor.values().begin();
      for (const float value : values_of(bthd.permuted({0, 2, 1, 3}))) *to++ = value;
      return tensor;
    };
    const Tensor q = as_bhtd(c.q), k = as_bhtd(c.k), v = as_bhtd(c.v);
    EXPECT_EQ(from_bhtd(q.view<4>()).data(), q.values().data());
    const Tensor y = attention(from_bhtd(q.view<4>()), from_bhtd(k.view<4>()), from_bhtd(v.view<4>()));
    EXPECT_TRUE(same_bits(floats(y), values_of(c.out)));
    // And the result into a tensor of that order.
    Tensor out({2, 4, 6, 5});
    attention_forward({from_bhtd(q.view<4>()), from_bhtd(k.view<4>()), from_bhtd(v.view<4>())}, {},
                      from_bhtd(out.view<4>()));
    EXPECT_TRUE(same_bits(floats(out), floats(as_bhtd(c.out))));
  }
}

TEST(FirstUse, TensorsThatDoNotFitAreRefusedInTheNameOfAttention) {
  const Tensor q({2, 6, 4, 3}), k({2, 9, 2, 3}), v({2, 9, 2, 5});
  expect_error("attention", [&] { attention(Tensor({6, 4, 3}), k, v); }, {"q has shape [6, 4, 3]", "[B, Tq, H, Dk]"});
  expect_error("attention", [&] { attention(q, Tensor(), v); }, {"k has shape []", "[B, Tk, Hkv, Dk]"});
  expect_error("attention", [&] { attention(q, k, Tensor({2, 8, 2, 5})); }, {"same length Tk", "v [2, 8, 2, 5]"});
  expect_error("attention", [&] { attention(View<const float, 4>(), k.view<4>(), v.view<4>()); }, {"q is a null view"});
}

// Options are given by name, any of them alone: -Wall -Wextra, with which this is compiled, must not call the others
// forgotten.
TEST(FirstUse, OptionsByNameCompileWithoutWarnings) {
  EXPECT_FALSE((AttentionOptions{.mask = Mask::causal()}.mask.is_none()));
  EXPECT_EQ((AttentionOptions{.scale = 2.0F}.scale), 2.0F);
  EXPECT_EQ((AttentionOptions{.scores = {.soft_cap = 30.0F}}.scores.soft_cap), 30.0F);
  EXPECT_EQ((ScoreOptions{.dropout = {.probability = 0.5F}}.dropout.probability), 0.5F);
  EXPECT_EQ((ScoreOptions{.relative = {.max_distance = 3}}.relative.max_distance), 3);
  EXPECT_EQ((ScoreOptions{.sinks = {}}.normaliser), Normaliser::softmax);
  EXPECT_EQ((Dropout{.item_ids = {7}}.item_id(0)), 7U);
  EXPECT_EQ((ScoreGradients{.d_sinks = {}}.d_bias.view.data()), nullptr);
  EXPECT_EQ((AttentionInputs{.q = {}}.v.data()), nullptr);
  EXPECT_EQ((AttentionOutputs{.d_out = {}}.out.data()), nullptr);
  EXPECT_EQ((AttentionGradients{.d_k = {}}.d_q.view.data()), nullptr);
  EXPECT_EQ((RowStates<float>{.sum = {}}.shift.data()), nullptr);
  EXPECT_FALSE((DecodeOptions{.causal = false}.causal));
  EXPECT_EQ((DecodeOptions{.scale = 2.0F}.scale), 2.0F);
  EXPECT_EQ((KvCacheOptions{.d_k = 3}.d_k), 3);
  EXPECT_EQ((KvChunk{.position = 3}.position), 3);
  EXPECT_EQ((MultiHeadOptions{.heads = 3}.heads), 3);
  EXPECT_EQ((MultiHeadOptions{.attention = {.mask = Mask::causal()}}.heads), 0);
  EXPECT_EQ((MultiHeadInputs{.key = {}}.query.data()), nullptr);
  EXPECT_EQ((MultiHeadParameters<float>{.v = {}}.q.data()), nullptr);
  EXPECT_EQ((MultiHeadGradients{.value = {}}.query.view.data()), nullptr);
  EXPECT_EQ((LayerRotary{.query = {.offset = 3}}.query.offset), 3);
  EXPECT_EQ((MultiHeadDecoderOptions{.heads = 3}.heads), 3);
  EXPECT_EQ((MultiHeadDecoderOptions{.cache = KvStorage::bf16}.heads), 0);
  EXPECT_EQ((HeadCounts{.heads = 3}.kv_heads), 0);
  EXPECT_FALSE((MultiHeadWeights{.out = Tensor({1})}.given()));
  EXPECT_EQ((MatmulOptions{.activation = Activation::relu}.activation), Activation::relu);
  EXPECT_EQ((BatchedMatmulOptions{.scale = 2.0F}.scale), 2.0F);
  EXPECT_EQ((RotaryOptions{.width = 4}.width), 4);
  EXPECT_EQ((RotaryPositions{.offset = 4}.offset), 4);
  EXPECT_EQ((RowInsight{.largest = {}}.entropy.data()), nullptr);
  EXPECT_EQ((TilePlace{.head = 1}.head), 1);
  EXPECT_EQ((TraceFilter{.head = 1}.head), 1);
  EXPECT_EQ((io::FileProblem{.what = "x"}.what), "x");
  EXPECT_EQ((explain::StepRules{.heads = 2}.heads), 2);
}

}  // namespace
}  // namespace heed::test
