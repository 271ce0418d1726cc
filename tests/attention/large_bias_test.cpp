// Biases near the largest float, with which most people mask: no finite bias, table, slope or score becomes ±∞ or NaN,
// and only -∞ hides a key.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention/insight.h"
#include "tests/support/attention_case.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/insight_results.h"

namespace heed::test {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr int64_t kLength = 129;
constexpr AttentionSizes kSizes{.t_q = kLength, .t_k = kLength, .heads = 2, .kv_heads = 1, .d_k = 8, .d_v = 5};

// A dense bias for all heads, value(query, key).
template <class Value>
std::vector<float> dense_bias(Value value) {
  std::vector<float> bias;
  for (int64_t i = 0; i < kLength; ++i) {
    for (int64_t j = 0; j < kLength; ++j) bias.push_back(value(i, j));
  }
  return bias;
}

View<const float, 4> view_of(const std::vector<float>& bias) { return {bias.data(), {1, 1, kLength, kLength}}; }

void expect_near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

TEST(LargeBias, TheLowestFloatAboveTheDiagonalGivesTheResultsOfACausalMask) {
  const std::vector<float> bias = dense_bias([](int64_t i, int64_t j) { return j <= i ? 0.0F : kLowest; });
  AttentionCase masked(kSizes, Layout::bthd, 1);
  AttentionCase biased(kSizes, Layout::bthd, 1);
  masked.options.mask = Mask::causal();
  biased.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    const AttentionResults expected = run(masked);
    const AttentionResults got = run(biased);
    expect_near(got.out, expected.out, 1e-6F);
    expect_near(got.d_q, expected.d_q, 2e-6F);
    expect_near(got.d_k, expected.d_k, 1e-5F);
    expect_near(got.d_v, expected.d_v, 1e-5F);
  });
}

TEST(LargeBias, DecodeHasTheBitsOfForward) {
  const std::vector<float> bias =
      dense_bias([](int64_t i, int64_t j) { return (i + j) % 3 == 0 ? 0.0F : (i % 7 == 0 ? -3e38F : kLowest); });
  AttentionCase c(kSizes, Layout::bthd, 2);
  c.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    for (const float value : expected.out) ASSERT_TRUE(std::isfinite(value));
    for (const int64_t chunk : {1, 5, 40}) expect_same(decode_bits(c, even_chunks(kLength, chunk)), expected);
  });
}

// Rows in which every key has such a bias: the largest takes all the weight, equal ones share it.
TEST(LargeBias, DifferentBiasesBelowMinus2e38KeepTheirOrder) {
  const std::vector<float> bias = dense_bias([](int64_t i, int64_t j) {
    if (j == i) return -2.5e38F;
    return j % 2 == 0 ? -3e38F : kLowest;
  });
  AttentionCase c(kSizes, Layout::bthd, 3);
  c.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    c.forward();
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t d = 0; d < kSizes.d_v; ++d) ASSERT_EQ(c.out(0, i, 1, d), c.v(0, i, 0, d)) << "query " << i;
    }
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 1);
    const StepTile masked = whole_step(c, AttentionStep::masked, 0, 1);
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t j = 0; j < kLength; ++j) {
        ASSERT_EQ(weights.view(i, j), i == j ? 1.0F : 0.0F);
        ASSERT_TRUE(std::isfinite(masked.view(i, j)));
      }
    }
  });
}

TEST(LargeBias, ARowOfEqualLowestBiasesIsTheMeanOfAllValues) {
  const std::vector<float> bias = dense_bias([](int64_t, int64_t) { return kLowest; });
  AttentionCase c(kSizes, Layout::bthd, 4);
  c.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    const AttentionResults got = run(c);
    for (int64_t d = 0; d < kSizes.d_v; ++d) {
      double mean = 0.0;
      for (int64_t j = 0; j < kLength; ++j) mean += static_cast<double>(c.v(0, j, 0, d)) / static_cast<double>(kLength);
      for (int64_t i = 0; i < kLength; ++i) ASSERT_NEAR(c.out(0, i, 0, d), mean, 1e-6) << "query " << i;
    }
    for (const std::vector<float>* values : {&got.d_q, &got.d_k, &got.d_v}) {
      for (const float value : *values) ASSERT_TRUE(std::isfinite(value));
    }
  });
}

TEST(LargeBias, MinusInfinityAloneHidesAKey) {
  const std::vector<float> bias = dense_bias(
      [](int64_t i, int64_t j) { return j == (i + 1) % kLength ? kLowest : -std::numeric_limits<float>::infinity(); });
  AttentionCase c(kSizes, Layout::bthd, 5);
  c.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    c.forward();
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t d = 0; d < kSizes.d_v; ++d) ASSERT_EQ(c.out(0, i, 0, d), c.v(0, (i + 1) % kLength, 0, d));
    }
  });
}

TEST(LargeBias, TheLargestFloatTakesAllTheWeight) {
  const std::vector<float> bias =
      dense_bias([](int64_t i, int64_t j) { return j == i / 2 ? kMost : static_cast<float>(j); });
  AttentionCase c(kSizes, Layout::bthd, 6);
  c.options.scores.bias = view_of(bias);
  on_every_isa([&] {
    const AttentionResults got = run(c);
    for (int64_t i = 0; i < kLength; ++i) {
      for (int64_t d = 0; d < kSizes.d_v; ++d) ASSERT_EQ(c.out(0, i, 0, d), c.v(0, i / 2, 0, d));
    }
    for (const float value : got.d_k) ASSERT_TRUE(std::isfinite(value));
  });
}

TEST(LargeBias, ATableOrSlopesOfThatSizeAreFiniteAndRight) {
  // Buckets 0 and 16: the key itself and those before it; the rest are as far away as a float can say.
  std::vector<float> table(32 * 2, kLowest);
  table[0] = table[1] = 0.0F;
  AttentionCase by_table(kSizes, Layout::bthd, 7);
  by_table.options.scores.relative.table = {table.data(), {32, 2}};
  const std::vector<float> slopes{1e38F, kMost};
  AttentionCase by_slope(kSizes, Layout::bthd, 7);
  by_slope.options.scores.alibi_slopes = {slopes.data(), {2}};
  on_every_isa([&] {
    for (AttentionCase* c : {&by_table, &by_slope}) {
      const AttentionResults got = run(*c);
      for (int64_t i = 0; i < kLength; ++i) {
        for (int64_t d = 0; d < kSizes.d_v; ++d)
          ASSERT_NEAR(c->out(0, i, 1, d), c->v(0, i, 0, d), 1e-6F) << "query " << i;
      }
      for (const float value : got.d_q) ASSERT_TRUE(std::isfinite(value));
      // Only keys at or after the query: all but its own have such a bias.
      c->options.mask = Mask::window(0, 40);
      for (const float value : run(*c).out) ASSERT_TRUE(std::isfinite(value));
      c->options.mask = {};
    }
  });
}

TEST(LargeBias, LowestBiasesAndScoresOfMinus3e38TogetherAreFinite) {
  const std::vector<float> bias = dense_bias([](int64_t, int64_t) { return kLowest; });
  std::vector<float> table(32 * 2, kLowest);
  AttentionCase c(kSizes, Layout::bthd, 8);
  c.options.scale = 1.0F;
  c.options.scores.bias = view_of(bias);
  c.options.scores.relative.table = {table.data(), {32, 2}};
  for (int64_t t = 0; t < kLength; ++t) {
    for (int64_t d = 0; d < kSizes.d_k; ++d) {
      c.k(0, t, 0, d) = d == 0 ? -3e19F : 0.0F;
      for (int64_t h = 0; h < 2; ++h) c.q(0, t, h, d) = d == 0 ? 1e19F : 0.0F;
    }
  }
  Tensor sums({1, 2, kLength});
  on_every_isa([&] {
    const AttentionResults got = run(c);
    for (const float value : got.out) ASSERT_TRUE(std::isfinite(value));
    log_sum_exp(c.rows, sums.view<3>());
    for (const float value : sums.values()) ASSERT_EQ(value, kLowest);
  });
}

// Scores that f32 holds, though not times log2 e.
TEST(LargeBias, ScoresOf3e38AreFiniteAndRight) {
  for (const float sign : {1.0F, -1.0F}) {
    AttentionCase c(kSizes, Layout::bthd, 9);
    c.options.scale = 1.0F;
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t d = 0; d < kSizes.d_k; ++d) {
        c.k(0, t, 0, d) = d == 0 ? sign * (t % 2 == 0 ? 3.1e19F : 3e19F) : 0.0F;
        for (int64_t h = 0; h < 2; ++h) c.q(0, t, h, d) = d == 0 ? 1e19F : 0.0F;
      }
    }
    const std::vector<double> expected = reference_heads(c);
    on_every_isa([&] {
      const AttentionResults got = run(c);
      EXPECT_LE(relative_error(got.out, expected), 2e-6);
      for (const float value : got.d_v) ASSERT_TRUE(std::isfinite(value));
      const StepTile scaled = whole_step(c, AttentionStep::scaled, 0, 0);
      for (int64_t j = 0; j < kLength; ++j) {
        EXPECT_NEAR(scaled.view(0, j) / (sign * (j % 2 == 0 ? 3.1e38F : 3e38F)), 1.0F, 1e-6F);
      }
    });
  }
}

TEST(LargeValues, AMeanOfValuesNearTheLargestFloatIsFinite) {
  for (const float value : {kMost, -kMost, 3e38F}) {
    for (const bool mixed : {false, true}) {
      AttentionCase c(kSizes, Layout::bthd, 10);
      for (int64_t j = 0; j < kLength; ++j) {
        for (int64_t d = 0; d < kSizes.d_v; ++d) c.v(0, j, 0, d) = mixed && (j + d) % 2 == 0 ? -value : value;
      }
      const std::vector<double> expected = reference_heads(c);
      on_every_isa([&] {
        const DecodeBits forward = forward_bits(c, Mask{});
        for (const float each : forward.out) ASSERT_TRUE(std::isfinite(each));
        EXPECT_LE(relative_error(forward.out, expected, static_cast<double>(kMost)), 2e-6);
        // Decode computes the last row as forward does.
        KvCache cache(cache_options(c.sizes, 2 * kPageKeys));
        const std::vector<int64_t> sequences = add_sequences(cache, 1);
        cache.append(std::vector<KvChunk>{chunk_of(c, 0, sequences[0], 0, kLength)});
        c.clear_results();
        DecodeOptions options;
        options.causal = false;
        attention_decode(cache, sequences, c.q.slice(1, 0, 3), options, c.out.slice(1, 0, 3),
                         {c.rows.shift.slice(2, 0, 3), c.rows.sum.slice(2, 0, 3)});
        const std::vector<float> decoded = values_of(View<const float, 4>(c.out.slice(1, 0, 3)));
        EXPECT_TRUE(
            same_bits(decoded, {forward.out.begin(), forward.out.begin() + static_cast<int64_t>(decoded.size())}));
      });
    }
  }
}

// Several groups of pieces, and a sink far below, near and far above the scores: the states are those of ordinary
// values.
TEST(LargeValues, RowsWithHeadroomHaveTheStatesOfOrdinaryValues) {
  AttentionCase large({.t_q = 3, .t_k = 5000, .heads = 3, .kv_heads = 1, .d_k = 4, .d_v = 2}, Layout::bthd, 13);
  AttentionCase usual(large.sizes, Layout::bthd, 13);
  const std::vector<float> sinks{-70.0F, 0.0F, 70.0F};
  for (int64_t j = 0; j < 5000; ++j) {
    for (int64_t d = 0; d < 2; ++d) large.v(0, j, 0, d) = kMost, usual.v(0, j, 0, d) = 1.0F;
  }
  Tensor large_sums({1, 3, 3});
  Tensor usual_sums({1, 3, 3});
  for (const bool with_sinks : {false, true}) {
    for (AttentionCase* c : {&large, &usual}) {
      c->options.scores.sinks = with_sinks ? View<const float, 1>{sinks.data(), {3}} : View<const float, 1>{};
    }
    on_every_isa([&] {
      large.forward();
      usual.forward();
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t h = 0; h < 3; ++h) ASSERT_NEAR(large.out(0, i, h, 1) / kMost, usual.out(0, i, h, 1), 4e-6F);
      }
      log_sum_exp(large.rows, large_sums.view<3>());
      log_sum_exp(usual.rows, usual_sums.view<3>());
      for (size_t i = 0; i < large_sums.values().size(); ++i) {
        ASSERT_NEAR(large_sums.values()[i], usual_sums.values()[i], 1e-5F);
      }
      // Decode has the bits of both.
      const std::vector<float> out = values_of(large.out);
      const std::vector<float> sums = values_of(View<const float, 3>(large.rows.sum));
      KvCache cache(cache_options(large.sizes, 5000 + kPageKeys));
      const std::vector<int64_t> sequences = add_sequences(cache, 1);
      cache.append(std::vector<KvChunk>{chunk_of(large, 0, sequences[0], 0, 5000)});
      large.clear_results();
      DecodeOptions options;
      options.causal = false;
      options.scores = large.options.scores;
      attention_decode(cache, sequences, large.q, options, large.out, large.rows);
      EXPECT_TRUE(same_bits(values_of(large.out), out));
      EXPECT_TRUE(same_bits(values_of(View<const float, 3>(large.rows.sum)), sums));
    });
  }
}

// o is finite there, and o / sum would round past the largest float.
TEST(LargeValues, TheLargestFloatUnderOneSmallWeightIsItself) {
  AttentionCase c({.t_q = 400, .t_k = 1, .d_k = 1, .d_v = 2}, Layout::bthd, 14);
  c.options.scale = 1.0F;
  c.k(0, 0, 0, 0) = -0.025F;
  for (int64_t i = 0; i < 400; ++i) c.q(0, i, 0, 0) = static_cast<float>(i + 1);
  c.v(0, 0, 0, 0) = kMost;
  c.v(0, 0, 0, 1) = kLowest;
  on_every_isa([&] {
    c.forward();
    for (int64_t i = 0; i < 400; ++i) {
      ASSERT_NEAR(c.out(0, i, 0, 0) / kMost, 1.0F, 1e-6F) << "query " << i;
      ASSERT_NEAR(c.out(0, i, 0, 1) / kMost, -1.0F, 1e-6F) << "query " << i;
    }
  });
}

TEST(SmallWeights, SigmoidOfMinus70IsNot0) {
  const std::vector<float> bias = dense_bias([](int64_t, int64_t) { return -70.0F; });
  AttentionCase c(kSizes, Layout::bthd, 11);
  c.options.scale = 0.0F;
  c.options.scores.bias = view_of(bias);
  c.options.scores.normaliser = Normaliser::sigmoid;
  const ReferenceResult expected = reference_result(c);
  on_every_isa([&] {
    const AttentionResults got = run(c);
    EXPECT_LE(relative_error(got.out, expected.out), 1e-5);
    EXPECT_LE(relative_error(got.d_v, expected.d_v), 1e-5);
  });
}

// The sum of such a row is the sink's, and the weights of its keys are small beside it without being nothing.
TEST(SmallWeights, KeysFarBelowASinkKeepTheirWeightsAndGradients) {
  const std::vector<float> bias = dense_bias([](int64_t, int64_t j) { return -30.0F - 0.01F * static_cast<float>(j); });
  const std::vector<float> sinks{42.0F, 45.0F};
  AttentionCase c(kSizes, Layout::bthd, 12);
  c.options.scores.bias = view_of(bias);
  c.options.scores.sinks = {sinks.data(), {2}};
  const ReferenceResult expected = reference_result(c);
  on_every_isa([&] {
    const AttentionResults got = run(c);
    EXPECT_LE(relative_error(got.out, expected.out), 2e-5);
    EXPECT_LE(relative_error(got.d_v, expected.d_v), 2e-5);
    EXPECT_LE(relative_error(got.d_q, expected.d_q), 2e-5);
    EXPECT_LE(relative_error(got.d_k, expected.d_k), 2e-5);
  });
}

}  // namespace
}  // namespace heed::test
