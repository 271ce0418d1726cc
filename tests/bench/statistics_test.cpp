#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace heed::bench {
namespace {

TEST(Median, IsTheMiddleValueOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({}), 0);
}

TEST(Quantile, IsTheValueThatAShareDoesNotExceed) {
  EXPECT_EQ(quantile({5, 1, 4, 2, 3}, 0), 1);
  EXPECT_EQ(quantile({5, 1, 4, 2, 3}, 0.5), 3);
  EXPECT_EQ(quantile({5, 1, 4, 2, 3}, 1), 5);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

TEST(QuietLevel, IgnoresTheFewProbesThatCameOutTooHigh) {
  std::vector<double> shares(95, 1.0);
  shares.insert(shares.end(), 5, 1.8);
  EXPECT_EQ(quiet_level(shares), 1.0);
}

TEST(QuietLevel, IsThatOfTheQuietPhaseThoughMostOfTheRunWasBusy) {
  std::vector<double> shares(80, 0.7);
  shares.insert(shares.end(), 20, 0.91);
  EXPECT_EQ(quiet_level(shares), 0.91);
}

TEST(Calm, FallsWhenReadsFallBesideMultiplyAdds) {
  const Probe quiet{100, 90, 0.9};
  const Probe busy{100, 70, 0.7};
  EXPECT_DOUBLE_EQ(calm_of(quiet, quiet, 0.9), 1);
  EXPECT_DOUBLE_EQ(calm_of(quiet, busy, 0.9), 0.7 / 0.9);
  EXPECT_DOUBLE_EQ(calm_of(busy, quiet, 0.9), 0.7 / 0.9);
}

TEST(Calm, FallsWhenThePeakDiffersBeforeAndAfter) {
  EXPECT_DOUBLE_EQ(calm_of({100, 90, 0.9}, {80, 72, 0.9}, 0.9), 0.8);
}

TEST(Calm, IsNotRaisedByProbesAboveTheQuietLevel) {
  EXPECT_DOUBLE_EQ(calm_of({100, 180, 1.8}, {100, 180, 1.8}, 0.9), 1);
}

TEST(ChooseRepetitions, TakesTheFirstThatAreNotBusy) {
  EXPECT_EQ(choose_repetitions({0.5, 1, 0.99, 0.6, 0.98, 1}, 3), (std::vector<size_t>{1, 2, 4}));
}

TEST(ChooseRepetitions, FillsUpWithTheCalmestWhereTooFewAreQuiet) {
  EXPECT_EQ(choose_repetitions({0.5, 1, 0.8, 0.6}, 3), (std::vector<size_t>{1, 2, 3}));
  EXPECT_EQ(choose_repetitions({0.5, 0.9}, 3), (std::vector<size_t>{1, 0}));
}

}  // namespace
}  // namespace heed::bench
