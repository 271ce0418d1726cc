// What the score options are made of: ALiBi's slopes, T5's buckets, the mask of dropout.
#include "heed/attention/score_options.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "heed/attention/dropout.h"
#include "heed/core/error.h"

namespace heed::test {
namespace {

TEST(AlibiSlopes, AreThePapersForPowersOfTwo) {
  EXPECT_EQ(alibi_slopes(1), (std::vector<float>{0x1p-8F}));
  EXPECT_EQ(alibi_slopes(8),
            (std::vector<float>{0x1p-1F, 0x1p-2F, 0x1p-3F, 0x1p-4F, 0x1p-5F, 0x1p-6F, 0x1p-7F, 0x1p-8F}));
  const std::vector<float> of_16 = alibi_slopes(16);
  EXPECT_FLOAT_EQ(of_16[0], std::sqrt(0.5F));
  EXPECT_EQ(of_16[15], 0x1p-8F);
}

TEST(AlibiSlopes, InterleaveThoseOfTwiceThePowerForOtherHeads) {
  // 12 heads: the 8 slopes of 8, then every other one of 16, from the first.
  const std::vector<float> of_8 = alibi_slopes(8);
  const std::vector<float> of_16 = alibi_slopes(16);
  const std::vector<float> of_12 = alibi_slopes(12);
  ASSERT_EQ(of_12.size(), 12U);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(of_12[i], of_8[i]);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(of_12[8 + i], of_16[2 * i]);
  EXPECT_EQ(alibi_slopes(3), (std::vector<float>{0x1p-4F, 0x1p-8F, 0x1p-2F}));
}

TEST(AlibiSlopes, NeedAHead) { EXPECT_THROW(alibi_slopes(0), Error); }

// The largest bucket whose first distance, exact · (max / exact)^(n / rest), is not above the distance.
int64_t bucket_by_borders(int64_t distance, int64_t buckets, int64_t max_distance, bool bidirectional) {
  const int64_t side = bidirectional ? buckets / 2 : buckets;
  const int64_t base = bidirectional && distance > 0 ? side : 0;
  const int64_t steps = distance > 0 && !bidirectional ? 0 : std::abs(distance);
  const int64_t exact = side / 2;
  if (steps < exact) return base + steps;
  int64_t bucket = exact;
  for (int64_t n = 1; n < side - exact; ++n) {
    const double border =
        static_cast<double>(exact) * std::pow(static_cast<double>(max_distance) / static_cast<double>(exact),
                                              static_cast<double>(n) / static_cast<double>(side - exact));
    if (static_cast<double>(steps) >= border - 1e-6) bucket = exact + n;
  }
  return base + bucket;
}

TEST(RelativeBuckets, AreT5s) {
  struct Rule {
    int64_t buckets, max_distance;
    bool bidirectional;
  };
  for (const Rule rule : {Rule{32, 128, true}, {32, 128, false}, {8, 20, true}, {64, 1000, false}, {16, 64, true}}) {
    for (int64_t distance = -1500; distance <= 1500; ++distance) {
      ASSERT_EQ(relative_bucket(distance, rule.buckets, rule.max_distance, rule.bidirectional),
                bucket_by_borders(distance, rule.buckets, rule.max_distance, rule.bidirectional))
          << distance << " of " << rule.buckets << " buckets to " << rule.max_distance;
    }
  }
}

TEST(RelativeBuckets, BeginWhereT5sImplementationBegins) {
  // First distances of the buckets of 32, 128, bidirectional, as PyTorch computes T5's formula.
  const std::vector<std::pair<int64_t, int64_t>> first{{0, 0},   {1, 17},  {7, 23},  {8, 24},  {12, 25}, {16, 26},
                                                       {23, 27}, {32, 28}, {46, 29}, {64, 30}, {91, 31}};
  for (const auto& [distance, bucket] : first) EXPECT_EQ(relative_bucket(distance, 32, 128, true), bucket);
  for (const auto& [distance, bucket] : first) {
    if (distance >= 8) {
      EXPECT_EQ(relative_bucket(distance - 1, 32, 128, true), bucket - 1);
    }
  }
  EXPECT_EQ(relative_bucket(-91, 32, 128, true), 15);
  EXPECT_EQ(relative_bucket(5, 32, 128, false), 0);
  EXPECT_EQ(relative_bucket(-113, 32, 128, false), 31);
  EXPECT_EQ(relative_bucket(-112, 32, 128, false), 30);
}

// 1 where a weight of the row is dropped.
std::vector<int> dropped_of(const Dropout& dropout, int64_t b, int64_t head, int64_t query, int64_t keys) {
  const DropoutRow row = dropout_row(dropout_head(dropout, b, head), query);
  std::vector<int> result;
  for (int64_t j = 0; j < keys; ++j) result.push_back(dropout_bits(row, j) < dropout_threshold(dropout) ? 1 : 0);
  return result;
}

TEST(DropoutMask, HasTheProbabilityAskedFor) {
  for (const float probability : {0.0F, 0.01F, 0.1F, 0.5F, 0.9F}) {
    Dropout dropout;
    dropout.probability = probability;
    const double p = static_cast<double>(probability);
    int64_t all = 0;
    for (int64_t query = 0; query < 1000; ++query) {
      for (const int one : dropped_of(dropout, 0, 0, query, 1000)) all += one;
    }
    // Five standard deviations of a million draws.
    EXPECT_NEAR(static_cast<double>(all) * 1e-6, p, 5e-3 * std::sqrt(p * (1.0 - p)));
  }
}

TEST(DropoutMask, RowsAndColumnsVaryAsIndependentDrawsDo) {
  Dropout dropout;
  dropout.probability = 0.1F;
  constexpr int64_t kSide = 1000;
  std::vector<std::vector<int>> rows;
  for (int64_t query = 0; query < kSide; ++query) rows.push_back(dropped_of(dropout, 0, 0, query, kSide));
  double of_rows = 0.0;  // Σ (sum of a row - 100)², expected 90 each
  double of_columns = 0.0;
  for (size_t i = 0; i < kSide; ++i) {
    double row = -100.0;
    double column = -100.0;
    for (size_t j = 0; j < kSide; ++j) {
      row += rows[i][j];
      column += rows[j][i];
    }
    of_rows += row * row;
    of_columns += column * column;
  }
  EXPECT_NEAR(of_rows / kSide, 90.0, 5.0 * 90.0 * std::sqrt(2.0 / kSide));
  EXPECT_NEAR(of_columns / kSide, 90.0, 5.0 * 90.0 * std::sqrt(2.0 / kSide));
}

TEST(DropoutMask, IsUncorrelatedWithItsNeighbours) {
  Dropout dropout;
  dropout.probability = 0.5F;
  constexpr int64_t kSide = 1000;
  std::vector<std::vector<int>> rows;
  for (int64_t query = 0; query < kSide; ++query) rows.push_back(dropped_of(dropout, 1, 2, query, kSide));
  for (const auto& [down, right] :
       {std::pair<size_t, size_t>{0, 1}, {0, 2}, {0, 16}, {1, 0}, {1, 1}, {2, 0}, {64, 0}}) {
    int64_t equal = 0;
    int64_t pairs = 0;
    for (size_t i = 0; i + down < kSide; ++i) {
      for (size_t j = 0; j + right < kSide; ++j, ++pairs) equal += rows[i][j] == rows[i + down][j + right] ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(equal) / static_cast<double>(pairs), 0.5, 2.5e-3) << down << ", " << right;
  }
}

TEST(DropoutMask, DiffersInSeedStepLayerItemAndHead) {
  Dropout dropout;
  dropout.probability = 0.5F;
  std::set<std::vector<int>> masks{dropped_of(dropout, 0, 0, 0, 64)};
  masks.insert(dropped_of(dropout, 1, 0, 0, 64));
  masks.insert(dropped_of(dropout, 0, 1, 0, 64));
  masks.insert(dropped_of(dropout, 0, 0, 1, 64));
  for (uint64_t Dropout::*const part : {&Dropout::seed, &Dropout::step, &Dropout::layer}) {
    Dropout other = dropout;
    other.*part = 1;
    masks.insert(dropped_of(other, 0, 0, 0, 64));
  }
  EXPECT_EQ(masks.size(), 7U);
}

TEST(DropoutMask, GoesByTheItemIdsThatTheCallerGives) {
  Dropout dropout;
  dropout.probability = 0.5F;
  dropout.item_ids = {9, 4};
  Dropout by_index;
  by_index.probability = 0.5F;
  EXPECT_EQ(dropped_of(dropout, 1, 0, 0, 64), dropped_of(by_index, 4, 0, 0, 64));
}

}  // namespace
}  // namespace heed::test
