// Schedules beyond PyTorch's values, which optimiser_golden_test.cpp has.
#include "heed/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/train/reduce_on_plateau.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

TEST(Schedule, IsConstantByDefault) {
  const Schedule schedule;
  EXPECT_EQ(schedule(0), 1.0);
  EXPECT_EQ(schedule(1000000), 1.0);
}

TEST(Schedule, StaysAtItsEnd) {
  EXPECT_EQ(LinearSchedule({.steps = 10, .end = 0.25})(25), 0.25);
  EXPECT_EQ(CosineSchedule({.steps = 10, .end = 0.25})(10), 0.25);
  EXPECT_EQ(CosineSchedule({.steps = 10, .end = 0.25})(19), 0.25);
  const OneCycleSchedule cycle{.steps = 10};
  EXPECT_EQ(cycle(9), cycle(100));
  EXPECT_NEAR(cycle(9), 1.0 / 25e4, 1e-15);
}

TEST(Schedule, InverseSquareRootAfterItsWarmUpIsThatOfTheTransformer) {
  const Schedule schedule{.shape = InverseSquareRootSchedule{.time_scale = 400}, .warm_up = {.steps = 400}};
  EXPECT_EQ(schedule(0), 0.0);
  EXPECT_EQ(schedule(100), 0.25);
  EXPECT_EQ(schedule(400), 1.0);
  EXPECT_EQ(schedule(1600), 0.5);
  EXPECT_NEAR(schedule(1000), std::sqrt(400.0 / 1000.0), 1e-15);
}

TEST(Schedule, TheShapeBeginsWhenTheWarmUpEnds) {
  const Schedule schedule{.shape = LinearSchedule{.steps = 4}, .warm_up = {.steps = 2, .start = 0.5}};
  const double expected[] = {0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0, 0.0};
  for (int64_t step = 0; step < 8; ++step) EXPECT_EQ(schedule(step), expected[step]) << step;
}

TEST(Schedule, RefusesStepsThatMakeNoSense) {
  expect_error([] { Schedule()(-1); }, {"Schedule: ", "step is -1"});
  expect_error([] { CosineSchedule({.steps = 0})(0); }, {"CosineSchedule: ", "0 steps"});
  expect_error([] { StepSchedule({.every = 0})(0); }, {"StepSchedule: ", "0 steps"});
  expect_error([] { OneCycleSchedule({.steps = 3})(0); }, {"OneCycleSchedule: ", "more steps"});
}

TEST(ReduceOnPlateau, ContinuesFromItsState) {
  const PlateauOptions options{.factor = 0.5, .patience = 1, .cooldown = 1};
  const double metrics[] = {3.0, 2.0, 2.5, 2.25, 2.5, 2.0, 2.5, 2.0, 1.0, 1.5, 1.5, 1.5};
  ReduceOnPlateau whole(options);
  double rate = 1.0, resumed_rate = 1.0;
  ReduceOnPlateau resumed(options);
  for (const double metric : metrics) {
    rate = whole(metric, rate);
    ReduceOnPlateau next(options);
    next.restore(resumed.state());
    resumed_rate = next(metric, resumed_rate);
    resumed = next;
    EXPECT_EQ(resumed_rate, rate);
  }
  EXPECT_LT(rate, 1.0);
}

TEST(ReduceOnPlateau, NanIsNoImprovement) {
  ReduceOnPlateau reduce({.factor = 0.5, .patience = 0});
  EXPECT_EQ(reduce(1.0, 1.0), 1.0);
  EXPECT_EQ(reduce(std::numeric_limits<double>::quiet_NaN(), 1.0), 0.5);
  EXPECT_EQ(reduce.state().best, 1.0);
}

TEST(ReduceOnPlateau, RefusesAFactorThatDoesNotReduce) {
  expect_error([] { ReduceOnPlateau({.factor = 1.0}); }, {"ReduceOnPlateau: ", "factor is 1"});
}

}  // namespace
}  // namespace heed::test
