// MultiheadAttention with learned and zero keys after the given ones: masks, biases, memory. Its numbers are compared
// with PyTorch's in multihead_attention_golden_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/nn/module.h"
#include "heed/nn/multihead_attention.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 6, kWidth = 8, kHeads = 2;

class AppendedKeys : public ::testing::Test {
 protected:
  AppendedKeys() { nn::initialise(attention_, Rng(1)); }

  std::vector<float> output(const nn::MultiheadAttentionCall& call) {
    Tape tape;
    const Var y = attention_(tape.constant(x_), call);
    return {y.values().begin(), y.values().end()};
  }

  nn::MultiheadAttention attention_{{.width = kWidth, .heads = kHeads, .bias_kv = true, .zero_kv = true}};
  Tensor x_ = random_tensor({kBatch, kTokens, kWidth});
};

TEST_F(AppendedKeys, ABiasOfMinusInfinityIsAMask) {
  Tensor bias({1, 1, kTokens, kTokens});
  for (int64_t i = 0; i < kTokens; ++i) {
    for (int64_t j = i + 1; j < kTokens; ++j) bias.view<4>()(0, 0, i, j) = -std::numeric_limits<float>::infinity();
  }
  EXPECT_EQ(output({.bias = bias.view<4>()}), output({.mask = Mask::causal()}));
  EXPECT_NE(output({}), output({.mask = Mask::causal()}));
}

TEST_F(AppendedKeys, ABiasIsBroadcastAndGoesWithAMask) {
  const Tensor one = random_tensor({1, 1, kTokens, kTokens});
  Tensor all({kBatch, kHeads, kTokens, kTokens});
  for (int64_t i = 0; i < all.count(); ++i) {
    all.values()[static_cast<size_t>(i)] = one.values()[static_cast<size_t>(i % one.count())];
  }
  const Mask mask = Mask::lengths({6, 3});
  EXPECT_EQ(output({.mask = mask, .bias = one.view<4>()}), output({.mask = mask, .bias = all.view<4>()}));
  EXPECT_NE(output({.mask = mask, .bias = one.view<4>()}), output({.mask = mask}));
  EXPECT_NE(output({.mask = mask, .bias = one.view<4>()}), output({.bias = one.view<4>()}));
}

// Where the mask hides all keys, the appended ones are left.
TEST_F(AppendedKeys, AppendedKeysAreAlwaysVisible) {
  for (const float value : output({.mask = Mask::lengths({0, 0})})) EXPECT_TRUE(std::isfinite(value));
  Tensor none({kBatch, 0, kWidth});
  Tape tape;
  const Var y = attention_(tape.constant(x_), tape.constant(none), tape.constant(none));
  const std::vector<float> hidden = output({.mask = Mask::lengths({0, 0})});
  for (size_t i = 0; i < hidden.size(); ++i) EXPECT_NEAR(y.values()[i], hidden[i], 1e-6F);
}

TEST_F(AppendedKeys, ABiasOfAnotherShapeIsRefused) {
  const Tensor bias({1, 1, kTokens, kTokens + 1});
  expect_error("nn::MultiheadAttention", [&] { output({.bias = bias.view<4>()}); }, {"[1, 1, 6, 7]", "2 or 1, 6, 6]"});
}

TEST_F(AppendedKeys, NothingIsAllocatedAfterTheFirstStep) {
  const Mask mask = Mask::causal();
  const Tensor d_y = random_tensor({kBatch, kTokens, kWidth}, 2);
  Tape tape;
  const auto step = [&] {
    attention_(tape.leaf(x_.values().data(), {kBatch, kTokens, kWidth}), {.mask = mask}).backward(d_y.values());
    tape.clear();
  };
  for (int i = 0; i < 2; ++i) step();
  const int64_t before = allocation_count();
  step();
  EXPECT_EQ(allocation_count(), before);
}

}  // namespace
}  // namespace heed::test
