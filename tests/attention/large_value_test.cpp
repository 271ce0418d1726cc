// Scores up to ±1e38 and values far from 1: the softmax stays finite and right, wherever the pieces' bounds lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr int64_t kQueries = 70;
constexpr int64_t kKeys = 300;  // three pieces
constexpr AttentionSizes kSizes{.t_q = kQueries, .t_k = kKeys, .heads = 2, .kv_heads = 1, .d_k = 4, .d_v = 5};

// A problem whose scores are base(key) and a little noise for the queries that `sees_base` says, noise for the others.
AttentionCase with_scores(const std::function<double(int64_t key)>& base,
                          const std::function<bool(int64_t query)>& sees_base) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  c.options.scale = 1.0F;
  for (int64_t j = 0; j < kKeys; ++j) c.k(0, j, 0, 0) = static_cast<float>(base(j) / 10.0);
  for (int64_t i = 0; i < kQueries; ++i) {
    for (int64_t h = 0; h < kSizes.heads; ++h) {
      for (int64_t d = 1; d < kSizes.d_k; ++d) c.q(0, i, h, d) *= 0.5F;
      c.q(0, i, h, 0) = sees_base(i) ? 10.0F : 0.0F;
    }
  }
  return c;
}

// Columns `first` and on of [T, H, D] values.
template <class T>
std::vector<T> columns(const std::vector<T>& values, int64_t width, int64_t first) {
  std::vector<T> result;
  for (size_t i = 0; i < values.size(); ++i) {
    if (static_cast<int64_t>(i) % width >= first) result.push_back(values[i]);
  }
  return result;
}

void expect_right(AttentionCase& c) {
  const ReferenceResult expected = reference_result(c);
  // The rounding of a score of 200 changes a weight by 1e-4 of itself.
  constexpr double kTolerance = 1e-4;
  on_every_isa([&] {
    const AttentionResults got = run(c);
    EXPECT_LE(relative_error(got.out, expected.out), kTolerance);
    EXPECT_LE(relative_error(got.d_v, expected.d_v), kTolerance);
    // Column 0 of k is as large as the scores, so of d_q's column 0 only the range is known.
    for (const float value : got.d_q) ASSERT_TRUE(std::isfinite(value));
    EXPECT_LE(relative_error(columns(got.d_q, 4, 1), columns(expected.d_q, 4, 1), 1.0), kTolerance);
    EXPECT_LE(relative_error(columns(got.d_k, 4, 1), columns(expected.d_k, 4, 1), 1.0), kTolerance);
    EXPECT_LE(relative_error(columns(got.d_k, 1, 0), columns(expected.d_k, 1, 0), 10.0), kTolerance);
    Tensor sums({1, kSizes.heads, kQueries});
    log_sum_exp(c.rows, sums.view<3>());
    for (size_t i = 0; i < expected.log_sum_exp.size(); ++i) {
      const double size = std::max(1.0, std::abs(expected.log_sum_exp[i]));
      ASSERT_NEAR(static_cast<double>(sums.values()[i]) / size, expected.log_sum_exp[i] / size, 2e-6) << "row " << i;
    }
  });
}

struct Scores {
  std::string name;
  std::function<double(int64_t key)> base;
};

// Each for all queries, for every second one (others of the panel stay in range), and for the last one alone.
void expect_right_for_some_and_all_queries(const std::vector<Scores>& all) {
  const std::function<bool(int64_t)> queries[] = {[](int64_t) { return true; }, [](int64_t i) { return i % 2 == 0; },
                                                  [](int64_t i) { return i == kQueries - 1; }};
  for (const Scores& scores : all) {
    for (size_t n = 0; n < 3; ++n) {
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(scores.name + ", queries " + std::to_string(n) + (causal ? ", causal" : ""));
        AttentionCase c = with_scores(scores.base, queries[n]);
        if (causal) c.options.mask = Mask::causal(QueryPositions::from(kKeys - kQueries - 10));
        expect_right(c);
      }
    }
  }
}

TEST(LargeScores, AllAlikeFromMinus1e38To1e38AreRight) {
  std::vector<Scores> all;
  for (const double score : {1e38, 1e30, 200.0, 127.0, 89.0, 88.0, 60.0, 42.0, 41.6, 41.5}) {
    for (const double sign : {1.0, -1.0}) {
      all.push_back({std::to_string(sign * score), [=](int64_t) { return sign * score; }});
    }
  }
  expect_right_for_some_and_all_queries(all);
}

TEST(LargeScores, ALargeOneInALaterPieceThanSmallOnesIsRight) {
  std::vector<Scores> all;
  for (const double score : {1e38, 200.0, 45.0, -45.0, -200.0, -1e38}) {
    all.push_back({"from key 128: " + std::to_string(score), [=](int64_t j) { return j < 128 ? 0.0 : score; }});
    all.push_back({"before key 128: " + std::to_string(score), [=](int64_t j) { return j < 128 ? score : 0.0; }});
    all.push_back({"from key 256: " + std::to_string(score), [=](int64_t j) { return j < 256 ? 0.0 : score; }});
    all.push_back({"key 200 alone: " + std::to_string(score), [=](int64_t j) { return j == 200 ? score : 0.0; }});
  }
  expect_right_for_some_and_all_queries(all);
}

TEST(LargeScores, MixturesWithinAPieceAreRight) {
  const auto alternate = [](double a, double b) { return [=](int64_t j) { return j % 2 == 0 ? a : b; }; };
  expect_right_for_some_and_all_queries({
      {"±1e38", alternate(1e38, -1e38)},
      {"±200", alternate(200.0, -200.0)},
      {"-1e38 and -200", alternate(-1e38, -200.0)},
      {"-1e38 and 0", alternate(-1e38, 0.0)},
      {"±50", alternate(50.0, -50.0)},
      {"rising to 300", [](int64_t j) { return static_cast<double>(j); }},
      {"falling to -300", [](int64_t j) { return -static_cast<double>(j); }},
      {"rising through 0 to 150", [](int64_t j) { return static_cast<double>(j - 150); }},
      {"falling through 0 to -150", [](int64_t j) { return static_cast<double>(150 - j); }},
      {"rising to 1e38", [](int64_t j) { return 1e38 * std::exp2(static_cast<double>(j - kKeys)); }},
      {"three levels", [](int64_t j) { return j < 100   ? -90.0
                                              : j < 200 ? -50.0
                                                        : -130.0; }},
      {"levels of pieces", [](int64_t j) { return j < 128   ? -41.0
                                                  : j < 256 ? -80.0
                                                            : -60.0; }},
  });
}

TEST(LargeScores, QueriesAndKeysOf1e19GiveAFiniteRightSoftmax) {
  AttentionCase c(kSizes, Layout::bthd, 2);
  c.options.scale = 1.0F;
  for (int64_t d = 0; d < kSizes.d_k; ++d) {
    for (int64_t j = 0; j < kKeys; ++j) c.k(0, j, 0, d) = 5e18F * std::tanh(c.k(0, j, 0, d));
    for (int64_t i = 0; i < kQueries; ++i) {
      for (int64_t h = 0; h < kSizes.heads; ++h) c.q(0, i, h, d) = 5e18F * std::tanh(c.q(0, i, h, d));
    }
  }
  // Equal keys share the weight.
  for (int64_t j = 150; j < kKeys; ++j) {
    for (int64_t d = 0; d < kSizes.d_k; ++d) c.k(0, j, 0, d) = c.k(0, j - 150, 0, d);
  }
  const ReferenceResult expected = reference_result(c);
  on_every_isa([&] {
    const AttentionResults got = run(c);
    EXPECT_LE(relative_error(got.out, expected.out), 2e-6);
    EXPECT_LE(relative_error(got.d_v, expected.d_v), 1e-5);
    EXPECT_LE(relative_error(got.d_q, expected.d_q, 0.1 * expected.d_q_terms), 1e-5);
    EXPECT_LE(relative_error(got.d_k, expected.d_k, 0.1 * expected.d_k_terms), 1e-5);
  });
}

// 2^score · v would overflow on the way to a result that does not, or lose its bits.
TEST(LargeValues, ValuesOf1e30WithScoresThatKeepTheReference0AreRight) {
  for (const double base : {35.0, 20.0, 0.0, -20.0, -35.0}) {
    for (const float size : {1e30F, 1e35F, 1e-20F}) {
      for (const int64_t every : {1, 2, 69}) {
        SCOPED_TRACE("score " + std::to_string(base) + ", v " + std::to_string(std::log10(size)) + " decades, every " +
                     std::to_string(every));
        AttentionCase c = with_scores([=](int64_t) { return base; }, [=](int64_t i) { return i % every == 0; });
        for (int64_t j = 0; j < kKeys; ++j) {
          for (int64_t d = 0; d < kSizes.d_v; ++d) c.v(0, j, 0, d) *= size;
        }
        const ReferenceResult expected = reference_result(c);
        on_every_isa([&] {
          const AttentionResults got = run(c);
          EXPECT_LE(relative_error(got.out, expected.out), 2e-5);
          EXPECT_LE(relative_error(got.d_v, expected.d_v), 2e-5);
          EXPECT_LE(relative_error(got.d_q, expected.d_q, 0.1 * expected.d_q_terms), 2e-5);
          EXPECT_LE(relative_error(got.d_k, expected.d_k, 0.1 * expected.d_k_terms), 2e-5);
        });
      }
    }
  }
}

}  // namespace
}  // namespace heed::test
