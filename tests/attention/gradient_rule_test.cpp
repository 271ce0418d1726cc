// The rule of heed/ops/gradient.h in attention_backward and multihead_backward: gradients of inputs are written or
// added, as asked; those of parameters are added.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/layer_case.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

std::vector<float> sum_of(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> result = a;
  for (size_t i = 0; i < a.size(); ++i) result[i] += b[i];
  return result;
}

// Calls backward with every gradient of an input added to `before` in all elements.
void backward_adding(AttentionCase& c, float before) {
  AttentionGradients gradients{{c.d_q, true}, {c.d_k, true}, {c.d_v, true}, c.score_gradients};
  gradients.scores.d_bias.add = true;
  for (const View<float, 4>& view : {c.d_q, c.d_k, c.d_v, c.score_gradients.d_bias.view}) {
    for (int64_t b = 0; b < view.size(0); ++b) {
      for (int64_t i = 0; i < view.size(1); ++i) {
        for (int64_t j = 0; j < view.size(2); ++j) {
          for (int64_t k = 0; k < view.size(3); ++k) view(b, i, j, k) = before;
        }
      }
    }
  }
  attention_backward(c.inputs(), c.options, {c.out, c.rows, c.d_out}, gradients);
}

TEST(GradientRule, AttentionAddsWhatItWouldWrite) {
  on_every_isa([] {
    for (const bool causal : {false, true}) {
      for (const bool one_bias : {false, true}) {  // for all heads and items, or one for each
        // One block of keys, so that d_q is one sum: before + written, exactly.
        AttentionCase c({2, 150, 150, 4, 2, 8, 5}, Layout::bthd, 3);
        ScoreTensors tensors(c, 4);
        tensors.use_bias(one_bias ? 1 : 2, one_bias ? 1 : 4);
        tensors.use_alibi();
        tensors.use_table(8, 16, true);
        tensors.use_sinks();
        if (causal) c.options.mask = Mask::causal();
        c.forward();
        c.backward();
        const std::vector<float> d_q = values_of(c.d_q);
        const std::vector<float> d_k = values_of(c.d_k);
        const std::vector<float> d_v = values_of(c.d_v);
        const std::vector<float> d_slopes = values_of(c.score_gradients.d_alibi_slopes);
        const std::vector<float> d_table = values_of(c.score_gradients.d_relative_table);
        const std::vector<float> d_sinks = values_of(c.score_gradients.d_sinks);
        const std::vector<float> d_bias = values_of(c.score_gradients.d_bias.view);
        const float before = 0.25F;
        backward_adding(c, before);
        const auto plus_before = [&](std::vector<float> values) {
          for (float& value : values) value = before + value;
          return values;
        };
        EXPECT_EQ(values_of(c.d_q), plus_before(d_q));
        EXPECT_EQ(values_of(c.d_k), plus_before(d_k));
        EXPECT_EQ(values_of(c.d_v), plus_before(d_v));
        EXPECT_EQ(values_of(c.score_gradients.d_alibi_slopes), sum_of(d_slopes, d_slopes));
        EXPECT_EQ(values_of(c.score_gradients.d_relative_table), sum_of(d_table, d_table));
        EXPECT_EQ(values_of(c.score_gradients.d_sinks), sum_of(d_sinks, d_sinks));
        const std::vector<float> added = values_of(c.score_gradients.d_bias.view);
        ASSERT_EQ(added.size(), d_bias.size());
        for (size_t i = 0; i < added.size(); ++i) ASSERT_NEAR(added[i], before + d_bias[i], 1e-6F);
      }
    }
  });
}

TEST(GradientRule, AttentionOfSeveralBlocksAndOfNoKeysAddsToo) {
  on_every_isa([] {
    AttentionCase c({1, 40, 700, 2, 2, 16, 16}, Layout::bhtd, 5);
    c.forward();
    c.backward();
    const std::vector<float> d_q = values_of(c.d_q);
    backward_adding(c, 1.0F);
    const std::vector<float> added = values_of(c.d_q);
    for (size_t i = 0; i < added.size(); ++i) ASSERT_NEAR(added[i], 1.0F + d_q[i], 1e-6F);

    AttentionCase none({1, 3, 0, 1, 1, 4, 4}, Layout::bthd, 6);
    none.forward();
    backward_adding(none, 2.0F);
    for (const float value : values_of(none.d_q)) EXPECT_EQ(value, 2.0F);
  });
}

TEST(GradientRule, TheLayerAddsToParametersAndToInputsWhereAsked) {
  for (const bool self : {false, true}) {
    Layer layer(self ? self_sizes() : LayerSizes());
    layer.run();
    const std::vector<float> d_x = floats(layer.d_x[0]);
    const std::vector<float> d_weight = floats(layer.d_weight);
    const std::vector<float> d_out_bias = floats(layer.d_out_bias);
    layer.zero_parameter_gradients();
    MultiHeadGradients gradients = layer.gradients();
    gradients.query.add = true;
    if (self) gradients.key.add = gradients.value.add = true;
    for (int i = 0; i < 2; ++i) {
      multihead_backward(layer.inputs(), layer.parameters(), layer.options, layer.state, layer.d_y.view<3>(),
                         gradients);
    }
    EXPECT_EQ(floats(layer.d_weight), sum_of(d_weight, d_weight));
    EXPECT_EQ(floats(layer.d_out_bias), sum_of(d_out_bias, d_out_bias));
    const std::vector<float> added = floats(layer.d_x[0]);  // d_x three times: written once, added twice
    for (size_t i = 0; i < added.size(); ++i) EXPECT_NEAR(added[i], 3.0F * d_x[i], 1e-5F);
  }
}

TEST(MultiHeadState, CanBeMovedBetweenForwardAndBackward) {
  Layer layer(self_sizes());
  layer.run();
  const std::vector<float> d_weight = floats(layer.d_weight);
  const MultiHeadState moved = std::move(layer.state);
  layer.zero_parameter_gradients();
  multihead_backward(layer.inputs(), layer.parameters(), layer.options, moved, layer.d_y.view<3>(), layer.gradients());
  EXPECT_EQ(floats(layer.d_weight), d_weight);
}

}  // namespace
}  // namespace heed::test
