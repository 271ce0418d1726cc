#include "heed/train/moving_average.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "heed/train/optimiser.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/odd_model.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

void draw_values(OddModel& model, uint64_t seed) {
  for (const nn::NamedParameter& each : nn::parameters(model)) {
    Rng(2000 + seed++).fill_normal(each.parameter->values());
  }
}

TEST(MovingAverage, FollowsItsRuleInDouble) {
  on_every_isa([] {
    for (const bool bias_corrected : {false, true}) {
      OddModel model;
      const std::vector<float> initial = model.values();
      std::vector<double> expected(initial.begin(), initial.end());
      MovingAverage average(nn::parameters(model), {.decay = 0.75, .bias_corrected = bias_corrected});
      // Bias-corrected: Σ decay^(n-t) w_t / Σ decay^(n-t), over the weights w_1 … w_n that were seen.
      double weight_sum = bias_corrected ? 0.0 : 1.0;
      for (double& value : expected) value *= weight_sum;
      for (uint64_t step = 0; step < 5; ++step) {
        draw_values(model, step);
        average.update();
        const std::vector<float> values = model.values();
        for (size_t i = 0; i < values.size(); ++i) expected[i] = 0.75 * expected[i] + 0.25 * values[i];
        weight_sum = 0.75 * weight_sum + 0.25;
      }
      average.swap();
      const std::vector<float> averages = model.values();
      for (size_t i = 0; i < averages.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(averages[i]), expected[i] / weight_sum, 2e-6) << i;
      }
    }
  });
}

TEST(MovingAverage, SwapPutsTheAverageInTheModelAndBack) {
  OddModel model;
  const std::vector<float> initial = model.values();
  MovingAverage average(nn::parameters(model));
  AdamW optimiser(nn::parameters(model), {.lr = 0.1});  // moves the parameters: the average finds them
  model.draw_gradients(1);
  optimiser.step();
  const std::vector<float> trained = model.values();
  average.swap();
  EXPECT_TRUE(average.in_model());
  EXPECT_EQ(model.values(), initial);
  expect_error([&] { average.update(); }, {"MovingAverage::update: ", "swap()"});
  expect_error([&] { average.state(); }, {"MovingAverage::state: ", "swap()"});
  average.swap();
  EXPECT_EQ(model.values(), trained);
}

TEST(MovingAverage, SameBitsForAnyNumberOfThreadsAndNoAllocations) {
  on_every_isa([] {
    std::optional<std::vector<float>> expected;
    for (const int count : {1, 3}) {
      const Threads threads(count);
      OddModel model;
      MovingAverage average(nn::parameters(model), {.bias_corrected = true});
      draw_values(model, 1);
      average.update();
      draw_values(model, 2);
      const int64_t allocations = allocation_count();
      average.update();
      average.swap();
      EXPECT_EQ(allocation_count(), allocations);
      if (!expected) expected = model.values();
      EXPECT_EQ(model.values(), *expected);
    }
  });
}

TEST(MovingAverage, ContinuesFromItsState) {
  OddModel whole, part;
  MovingAverage uninterrupted(nn::parameters(whole), {.bias_corrected = true});
  MovingAverage before(nn::parameters(part), {.bias_corrected = true});
  draw_values(whole, 1);
  draw_values(part, 1);
  uninterrupted.update();
  before.update();
  OddModel resumed;
  MovingAverage after(nn::parameters(resumed), {.bias_corrected = true});
  EXPECT_EQ(before.state().tensors.front().name, "average.weight");
  after.restore(before.state());
  draw_values(whole, 2);
  draw_values(resumed, 2);
  uninterrupted.update();
  after.update();
  uninterrupted.swap();
  after.swap();
  EXPECT_EQ(resumed.values(), whole.values());
}

TEST(MovingAverage, RefusesWhatDoesNotFit) {
  OddModel model;
  expect_error([&] { MovingAverage(nn::parameters(model), {.decay = 1.0}); }, {"MovingAverage: ", "decay is 1"});
  MovingAverage average(nn::parameters(model));
  expect_error([&] { average.restore({}); }, {"MovingAverage::restore: ", "average.bias [131] is missing"});
  model = OddModel();
  expect_error([&] { average.update(); }, {"MovingAverage::update: ", "is gone"});
}

}  // namespace
}  // namespace heed::test
