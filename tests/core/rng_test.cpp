#include "heed/core/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace heed {
namespace {

constexpr uint64_t kDraws = 100000;

// Files and goldens depend on these values: a change of the generator is a change of every seeded result.
TEST(Rng, ValuesAreFixedForever) {
  EXPECT_EQ(Rng(0).bits(0), 0xffda8f22e800f583ULL);
  EXPECT_EQ(Rng(1).bits(0), 0x6e5d669f6cea00c0ULL);
  EXPECT_EQ(Rng(1).bits(12345), 0x07031f43ee46533eULL);
}

TEST(Rng, ValueDependsOnSeedAndCounterOnly) {
  const Rng first(7);
  const Rng second(7);
  for (const uint64_t counter : {9U, 3U, 0U, 3U}) EXPECT_EQ(first.bits(counter), second.bits(counter));
  EXPECT_NE(first.bits(3), first.bits(4));
  EXPECT_NE(first.bits(3), Rng(8).bits(3));
}

TEST(Rng, DrawsDifferBetweenCountersAndSeeds) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (uint64_t counter = 0; counter < 100; ++counter) seen.insert(Rng(seed).bits(counter));
  }
  EXPECT_EQ(seen.size(), 10000U);
}

TEST(Rng, UniformFillsZeroToOneEvenly) {
  const Rng rng(1);
  std::vector<int> buckets(10);
  for (uint64_t i = 0; i < kDraws; ++i) {
    const float value = rng.uniform(i);
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    ++buckets[static_cast<size_t>(value * 10.0F)];
  }
  // Six standard deviations of a binomial count around 10000.
  for (const int count : buckets) EXPECT_NEAR(count, 10000, 570);
}

TEST(Rng, NormalHasMeanZeroVarianceOneAndBothTails) {
  const Rng rng(2);
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  double least = 0;
  double most = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const double value = rng.normal(i);
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.03);
  EXPECT_NEAR(fourth / kDraws, 3.0, 0.2);
  EXPECT_LT(least, -3.5);
  EXPECT_GT(most, 3.5);
}

TEST(Rng, NeighbouringCountersAreUncorrelated) {
  const Rng rng(3);
  double product = 0;
  for (uint64_t i = 0; i < kDraws; ++i) product += static_cast<double>(rng.normal(i)) * rng.normal(i + 1);
  EXPECT_NEAR(product / kDraws, 0.0, 0.02);
}

TEST(Rng, FillNormalTakesCountersInOrder) {
  const Rng rng(4);
  std::vector<float> values(5);
  rng.fill_normal(values, 2.0F);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 2.0F * rng.normal(i));
}

}  // namespace
}  // namespace heed
