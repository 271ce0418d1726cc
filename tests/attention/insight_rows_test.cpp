// What rows look at and what keys receive.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "heed/attention/insight.h"
#include "heed/simd/base256.h"
#include "tests/support/every_isa.h"
#include "tests/support/insight_results.h"
#include "tests/support/random_case.h"
#include "tests/support/sanitized.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kCases = kSanitized ? 60 : 400;

// One row of `got` against the whole row of masked scores and weights.
void expect_row(const AttentionCase& c, const RowResults& got, const TilePlace& row, int64_t i) {
  const StepTile masked(c, AttentionStep::masked, row, 1, c.sizes.t_k);
  const StepTile weights(c, AttentionStep::weights, row, 1, c.sizes.t_k);
  std::vector<int64_t> keys;
  double entropy = 0.0;
  for (int64_t j = 0; j < c.sizes.t_k; ++j) {
    if (!c.visible(row.b, row.head, row.q, j)) continue;
    keys.push_back(j);
    const auto weight = static_cast<double>(weights.view(0, j));
    entropy -= weight > 0.0 ? weight * std::log(weight) : 0.0;
  }
  if (c.options.scores.sinks.data() != nullptr) {
    const auto sink = static_cast<double>(c.options.scores.sinks(row.head));
    const auto shift = static_cast<double>(c.rows.shift(row.b, row.head, row.q));
    const double weight = std::exp(sink - kLogOf256 * shift) / static_cast<double>(c.rows.sum(row.b, row.head, row.q));
    entropy -= weight * std::log(weight);
  }
  std::ranges::sort(
      keys, [&](int64_t a, int64_t b) { return std::pair(-masked.view(0, a), a) < std::pair(-masked.view(0, b), b); });
  if (got.views.entropy.data() != nullptr) {
    EXPECT_NEAR(got.views.entropy(row.b, row.head, i), entropy, 2e-6 * (1.0 + entropy));
    EXPECT_GE(got.views.entropy(row.b, row.head, i), 0.0F);
  }
  EXPECT_EQ(got.views.largest(row.b, row.head, i), keys.empty() ? -kInfinity : masked.view(0, keys[0]));
  for (int64_t n = 0; n < got.top_k; ++n) {
    const bool there = n < static_cast<int64_t>(keys.size());
    const int64_t key = there ? keys[static_cast<size_t>(n)] : -1;
    EXPECT_EQ(got.views.top_keys(row.b, row.head, i, n), key) << "place " << n;
    EXPECT_EQ(got.views.top_weights(row.b, row.head, i, n), there ? weights.view(0, key) : 0.0F) << "place " << n;
  }
}

TEST(RowInsight, entropy_largest_and_top_keys_are_those_of_the_whole_row) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    Draw draw(seed + 3000);
    const int64_t q_begin = draw.between(0, c.sizes.t_q);
    const int64_t count = draw.between(0, c.sizes.t_q - q_begin);
    const int64_t top_k = draw.chance(4) ? draw.between(1, 60) : draw.between(1, 5);
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      const RowResults got(c, q_begin, count, top_k);
      for (int64_t i = 0; i < count; i += 1 + i / 8) {  // all of the first, then ever fewer
        for (int64_t b = 0; b < c.sizes.batch; ++b) {
          const int64_t head = draw.below(c.sizes.heads);
          SCOPED_TRACE("item " + std::to_string(b) + " head " + std::to_string(head) + " query " +
                       std::to_string(q_begin + i));
          expect_row(c, got, {b, head, q_begin + i, 0}, i);
        }
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST(RowInsight, entropy_agrees_with_the_double_reference) {
  // Flat, usual, and peaked rows: the entropy of the last ones is nearly 0.
  for (const float scale : {0.0F, 0.25F, 2.0F, 12.0F}) {
    AttentionCase c({1, 24, 2000, 1, 1, 16, 2}, Layout::bthd, 11);
    c.options.scale = scale;
    on_every_isa([&] {
      c.forward();
      const RowResults got(c, 0, 24, 1);
      for (int64_t q = 0; q < 24; ++q) {
        std::vector<double> scores(2000);
        for (int64_t j = 0; j < 2000; ++j) {
          double sum = 0.0;
          for (int64_t d = 0; d < 16; ++d) {
            sum += static_cast<double>(c.q(0, q, 0, d)) * static_cast<double>(c.k(0, j, 0, d));
          }
          scores[static_cast<size_t>(j)] = sum * static_cast<double>(scale);
        }
        const double most = std::ranges::max(scores);
        double sum = 0.0;
        double weighted = 0.0;
        for (const double score : scores) {
          sum += std::exp(score - most);
          weighted += std::exp(score - most) * (score - most);
        }
        const double entropy = std::log(sum) - weighted / sum;
        // A score of size s has an error of some 1e-7 s, and so has a small entropy.
        EXPECT_NEAR(got.views.entropy(0, 0, q), entropy, 2e-6 * (1.0 + entropy) + 1e-7 * std::abs(most))
            << "scale " << scale;
      }
    });
  }
}

TEST(RowInsight, of_equal_scores_the_lower_key_comes_first) {
  on_every_isa([] {
    AttentionCase c({1, 3, 300, 1, 1, 4, 2}, Layout::bthd, 12);
    for (int64_t j = 0; j < 300; ++j) {
      for (int64_t d = 0; d < 4; ++d) c.k(0, j, 0, d) = j % 3 == 0 ? c.q(0, 1, 0, d) : 0.0F;
    }
    c.forward();
    const RowResults got(c, 1, 1, 120);
    for (int64_t n = 0; n < 120; ++n) {
      EXPECT_EQ(got.views.top_keys(0, 0, 0, n), n < 100 ? 3 * n : (n - 100) / 2 * 3 + 1 + (n - 100) % 2);
    }
  });
}

TEST(RowInsight, a_row_that_sees_no_key_has_entropy_0_and_no_top_key) {
  on_every_isa([] {
    AttentionCase c({2, 3, 40, 1, 1, 4, 2}, Layout::bthd, 13);
    c.options.mask = Mask::lengths({0, 2});
    c.forward();
    const RowResults got(c, 0, 3, 4);
    EXPECT_EQ(got.views.entropy(0, 0, 1), 0.0F);
    EXPECT_EQ(got.views.largest(0, 0, 1), -kInfinity);
    for (int64_t n = 0; n < 4; ++n) {
      EXPECT_EQ(got.views.top_keys(0, 0, 1, n), -1);
      EXPECT_EQ(got.views.top_weights(0, 0, 1, n), 0.0F);
    }
    EXPECT_EQ(got.views.top_keys(1, 0, 1, 2), -1);
    EXPECT_NE(got.views.top_keys(1, 0, 1, 1), -1);
  });
}

TEST(RowInsight, a_row_that_sees_a_single_key_has_entropy_exactly_0) {
  on_every_isa([] {
    AttentionCase c({2, 200, 200, 2, 1, 16, 2}, Layout::bthd, 15);
    c.options.mask = Mask::window(0, 0);
    c.forward();
    const RowResults got(c, 0, 200, 1);
    for (const float entropy : got.entropy) ASSERT_EQ(entropy, 0.0F);
  });
}

TEST(RowInsight, a_row_that_sees_NaN_is_NaN_and_no_other) {
  on_every_isa([] {
    AttentionCase c({1, 60, 60, 1, 1, 4, 2}, Layout::bthd, 14);
    c.options.mask = Mask::causal();
    c.forward();
    const RowResults clean(c, 0, 60, 3);
    c.k(0, 30, 0, 1) = kNan;
    c.v(0, 5, 0, 0) = kNan;  // changes no weight, but forward takes another shift, as always where out is NaN
    c.forward();
    const RowResults got(c, 0, 60, 3);
    for (int64_t q = 0; q < 60; ++q) {
      const bool unknown = q >= 30;
      EXPECT_EQ(std::isnan(got.views.entropy(0, 0, q)), unknown);
      EXPECT_EQ(std::isnan(got.views.largest(0, 0, q)), unknown);
      EXPECT_EQ(std::isnan(got.views.top_weights(0, 0, q, 2)), unknown);
      for (int64_t n = 0; n < 3; ++n) {
        EXPECT_EQ(got.views.top_keys(0, 0, q, n), unknown ? -1 : clean.views.top_keys(0, 0, q, n));
      }
      if (!unknown) {
        EXPECT_NEAR(got.views.entropy(0, 0, q), clean.views.entropy(0, 0, q), 4e-6);
      }
    }
  });
}

TEST(RowInsight, what_is_not_asked_for_is_not_needed) {
  AttentionCase c({1, 20, 33, 2, 1, 4, 2}, Layout::bthd, 15);
  c.forward();
  const RowResults all(c, 4, 9, 3);
  const auto same = [&](const std::vector<float>& part, const std::vector<float>& whole) {
    EXPECT_TRUE(same_bits(part, whole));
  };
  std::vector<float> values(2 * 9);
  const View<float, 3> view(values.data(), {1, 2, 9});
  attention_row_insight(c.inputs(), c.options, c.rows, 4, {view, {}, {}, {}});
  same(values, all.entropy);
  attention_row_insight(c.inputs(), c.options, c.rows, 4, {{}, view, {}, {}});
  same(values, all.largest);
  std::vector<float> weights(2 * 9 * 3);
  attention_row_insight(c.inputs(), c.options, c.rows, 4, {{}, {}, {}, {weights.data(), {1, 2, 9, 3}}});
  same(weights, all.top_weights);
  std::vector<int64_t> keys(2 * 9 * 3);
  attention_row_insight(c.inputs(), c.options, c.rows, 4, {{}, {}, {keys.data(), {1, 2, 9, 3}}, {}});
  EXPECT_EQ(keys, all.top_keys);
}

TEST(MassReceived, is_the_sum_of_the_weights_over_the_queries) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      const std::vector<float> mass = mass_received(c);
      const std::vector<float> weights = all_weights(c);
      const auto t_k = static_cast<size_t>(c.sizes.t_k);
      for (size_t i = 0; i < mass.size(); ++i) {
        double sum = 0.0;
        for (int64_t q = 0; q < c.sizes.t_q; ++q) {
          sum += static_cast<double>(
              weights[(i / t_k * static_cast<size_t>(c.sizes.t_q) + static_cast<size_t>(q)) * t_k + i % t_k]);
        }
        ASSERT_NEAR(mass[i], sum, 1e-6 * sum) << "element " << i;
      }
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST(MassReceived, NaN_of_a_hidden_key_stays_out_of_the_others) {
  on_every_isa([] {
    AttentionCase c({1, 9, 30, 1, 1, 4, 2}, Layout::bthd, 16);
    c.options.mask = Mask::causal(QueryPositions::top_left());
    c.forward();
    const std::vector<float> clean = mass_received(c);
    for (int64_t j = 9; j < 30; ++j) c.k(0, j, 0, 2) = kNan;
    c.forward();
    EXPECT_TRUE(same_bits(mass_received(c), clean));
    EXPECT_EQ(clean[9], 0.0F);
    EXPECT_GT(clean[0], 1.0F);
  });
}

TEST(Insight, same_bits_for_any_threads_batch_mates_and_rows_at_a_time) {
  const int before = threads();
  on_every_isa([] {
    AttentionCase c({3, 500, 700, 4, 2, 24, 8}, Layout::bthd, 17);
    c.options.mask = Mask::causal(QueryPositions::bottom_right());
    set_threads(1);
    c.forward();
    const RowResults rows(c, 0, 500, 5);
    const std::vector<float> mass = mass_received(c);
    const std::vector<float> weights = all_weights(c);
    set_threads(3);
    const RowResults again(c, 0, 500, 5);
    EXPECT_TRUE(same_bits(again.entropy, rows.entropy) && same_bits(again.largest, rows.largest) &&
                same_bits(again.top_weights, rows.top_weights));
    EXPECT_EQ(again.top_keys, rows.top_keys);
    EXPECT_TRUE(same_bits(mass_received(c), mass));
    EXPECT_TRUE(same_bits(all_weights(c), weights));

    const RowResults some(c, 237, 3, 5);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(some.views.entropy(2, 3, i), rows.views.entropy(2, 3, 237 + i));
      EXPECT_EQ(some.views.top_weights(2, 3, i, 4), rows.views.top_weights(2, 3, 237 + i, 4));
    }

    // Item 1 alone.
    const AttentionInputs alone{c.q.slice(0, 1, 1), c.k.slice(0, 1, 1), c.v.slice(0, 1, 1)};
    const RowStates<float> states{c.rows.shift.slice(0, 1, 1), c.rows.sum.slice(0, 1, 1)};
    std::vector<float> mass_alone(4 * 700);
    attention_mass_received(alone, c.options, states, {mass_alone.data(), {1, 4, 700}});
    EXPECT_TRUE(same_bits(mass_alone, {mass.begin() + 4 * 700, mass.begin() + 2 * 4 * 700}));
  });
  set_threads(before);
}

}  // namespace
}  // namespace heed::test
