#include "heed/train/optimiser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/odd_model.h"
#include "tests/support/reference_optimiser.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

// Ten steps, on every instruction set, beside the rule in double.
template <class Rule, class Options>
void expect_rule(const Options& options) {
  on_every_isa([&] {
    OddModel model;
    ReferenceOptimiser<double> expected{doubles(model.values())};
    Rule optimiser(nn::parameters(model), options);
    for (uint64_t step = 0; step < 10; ++step) {
      model.draw_gradients(step);
      expected.step(options, doubles(model.gradients()));
      optimiser.step();
    }
    const std::vector<float> values = model.values();
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(values[i]), expected.values[i], 3e-6 * (1.0 + std::abs(expected.values[i]))) << i;
    }
  });
}

TEST(Optimiser, SgdFollowsItsRuleInDouble) {
  expect_rule<SGD>(SGDOptions{.lr = 0.1});
  expect_rule<SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.1});
  expect_rule<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  expect_rule<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  expect_rule<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
}

TEST(Optimiser, AdamFollowsItsRuleInDouble) {
  expect_rule<Adam>(AdamOptions{});
  expect_rule<Adam>(AdamOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1});
}

TEST(Optimiser, AdamWFollowsItsRuleInDouble) {
  expect_rule<AdamW>(AdamWOptions{});
  expect_rule<AdamW>(AdamWOptions{.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1});
}

TEST(Optimiser, DefaultsArePyTorchs) {
  EXPECT_EQ(SGDOptions{}.lr, 1e-3);
  EXPECT_EQ(SGDOptions{}.momentum, 0.0);
  EXPECT_EQ(AdamOptions{}.weight_decay, 0.0);
  EXPECT_EQ(AdamWOptions{}.weight_decay, 0.01);
  EXPECT_EQ(AdamWOptions{}.beta2, 0.999);
  EXPECT_EQ(AdamWOptions{}.eps, 1e-8);
}

TEST(Optimiser, AMomentThatOnlyDecaysBecomesZero) {
  const auto expect_zero = [](Optimiser& optimiser, Parameter& parameter) {
    parameter.gradient()[0] = 1.0F;
    for (int step = 0; step < 1000; ++step) optimiser.step();
    EXPECT_EQ(optimiser.state().tensors[0].values[0], 0.0F);
  };
  on_every_isa([&] {
    Parameter parameter(Dims{3});
    SGD sgd({{"p", &parameter}}, {.momentum = 0.9});
    expect_zero(sgd, parameter);
    AdamW adam({{"p", &parameter}});
    expect_zero(adam, parameter);
  });
}

TEST(Optimiser, AStepClearsTheGradients) {
  OddModel model;
  AdamW optimiser(nn::parameters(model));
  model.draw_gradients(1);
  optimiser.step();
  for (const float gradient : model.gradients()) ASSERT_EQ(gradient, 0.0F);
}

TEST(Optimiser, GradientsFromBeforeItWasMadeCount) {
  OddModel model;
  model.draw_gradients(1);
  const double expected = norm_of(model.gradients());
  SGD optimiser(nn::parameters(model));
  EXPECT_NEAR(optimiser.step(), expected, 1e-9 * expected);
}

TEST(Optimiser, ReturnsTheNormOfAllGradientsWithTheSameBitsOnEveryInstructionSet) {
  std::vector<double> norms;
  on_every_isa([&] {
    OddModel model;
    AdamW optimiser(nn::parameters(model));
    model.draw_gradients(1);
    const double expected = norm_of(model.gradients());
    norms.push_back(optimiser.step());
    EXPECT_NEAR(norms.back(), expected, 1e-12 * expected);
    EXPECT_EQ(optimiser.gradient_norm(), norms.back());
    EXPECT_EQ(norms.back(), norms.front());
  });
}

TEST(Optimiser, GradientsWithALargerNormAreScaledToClipNorm) {
  on_every_isa([] {
    for (const double clip_norm : {0.5, 1e6}) {
      OddModel model, other;
      SGD clipped(nn::parameters(model), {.lr = 1.0, .clip_norm = clip_norm});
      SGD plain(nn::parameters(other), {.lr = 1.0});
      model.draw_gradients(1);
      other.draw_gradients(1);
      const std::vector<float> before = model.values();
      const double norm = clipped.step();
      EXPECT_EQ(plain.step(), norm);  // before clipping
      const double scale = std::min(1.0, clip_norm / (norm + 1e-6));
      const std::vector<float> values = model.values(), unclipped = other.values();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_NEAR(values[i] - before[i], scale * (unclipped[i] - before[i]), 1e-6);
      }
    }
  });
}

TEST(Optimiser, SameBitsForAnyNumberOfThreads) {
  on_every_isa([] {
    std::optional<std::vector<float>> expected;
    for (const int count : {1, 2, 5}) {
      const Threads threads(count);
      OddModel model;
      AdamW optimiser(nn::parameters(model), {.clip_norm = 1.0});
      for (uint64_t step = 0; step < 3; ++step) {
        model.draw_gradients(step);
        optimiser.step();
      }
      if (!expected) expected = model.values();
      EXPECT_EQ(model.values(), *expected);
    }
  });
}

TEST(Optimiser, StepsAllocateNothing) {
  on_every_isa([] {
    for (const int count : {1, 2}) {
      const Threads threads(count);
      OddModel model;
      AdamW optimiser(nn::parameters(model), {.clip_norm = 1.0});
      optimiser.step();
      const int64_t allocations = allocation_count();
      optimiser.step();
      optimiser.set_learning_rate(1e-4);
      optimiser.step();
      EXPECT_EQ(allocation_count(), allocations);
    }
  });
}

TEST(Optimiser, DecayOfMatricesSparesBiasesAndGains) {
  OddModel model;
  const std::vector<float> weight(model.weight.values().begin(), model.weight.values().end());
  const std::vector<float> bias(model.bias.values().begin(), model.bias.values().end());
  AdamW optimiser(nn::parameters(model), {.lr = 0.5, .weight_decay = 0.5, .decay = Decay::matrices});
  optimiser.step();  // all gradients are 0: only decay changes anything
  for (size_t i = 0; i < weight.size(); ++i) ASSERT_EQ(model.weight.values()[i], 0.75F * weight[i]);
  for (size_t i = 0; i < bias.size(); ++i) ASSERT_EQ(model.bias.values()[i], bias[i]);
}

TEST(Optimiser, AParameterHasTheSettingsOfTheFirstGroupThatContainsIt) {
  OddModel model;
  const auto named = [](std::string_view wanted) {
    return [wanted](std::string_view name, const Dims&) { return name == wanted; };
  };
  SGDOptions options{.lr = 0.5, .weight_decay = 0.5, .decay = Decay::matrices};
  options.groups = {{.contains = named("number"), .lr_factor = 0.5, .weight_decay = 1.0},
                    {.contains = [](std::string_view, const Dims& shape) { return shape.rank() < 2; }},
                    {.contains = named("scale"), .lr_factor = 0.0}};
  const float number = model.number.values()[0], bias = model.bias.values()[3], scale = model.scale.values()[5];
  const float weight = model.weight.values()[7];
  SGD optimiser(nn::parameters(model), options);
  optimiser.step();
  EXPECT_EQ(model.number.values()[0], number - 0.25F * number);
  EXPECT_EQ(model.bias.values()[3], bias);
  EXPECT_EQ(model.scale.values()[5], scale);
  EXPECT_EQ(model.weight.values()[7], weight - 0.25F * weight);
}

TEST(Optimiser, TheLearningRateCanBeSetBetweenSteps) {
  OddModel model;
  SGD optimiser(nn::parameters(model), {.lr = 0.25});
  EXPECT_EQ(optimiser.learning_rate(), 0.25);
  model.number.values()[0] = 1.0F;
  model.number.gradient()[0] = 1.0F;
  optimiser.step();
  optimiser.set_learning_rate(0.5);
  model.number.gradient()[0] = 1.0F;
  optimiser.step();
  EXPECT_EQ(model.number.values()[0], 0.25F);
  EXPECT_EQ(optimiser.steps(), 2);
  expect_error([&] { optimiser.set_learning_rate(-1.0); }, {"Optimiser::set_learning_rate: ", "-1"});
}

TEST(Optimiser, AGradientThatIsNotFiniteIsRefusedAndNothingIsWritten) {
  on_every_isa([] {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      OddModel model;
      AdamW optimiser(nn::parameters(model), {.clip_norm = 1.0});
      model.draw_gradients(1);
      optimiser.step();
      const OptimiserState state = optimiser.state();
      std::vector<std::vector<float>> moments;
      for (const StateTensor& each : state.tensors) moments.emplace_back(each.values.begin(), each.values.end());
      const std::vector<float> values = model.values();
      model.draw_gradients(2);
      model.bias.gradient()[130] = bad;
      model.scale.gradient()[0] = bad;
      const float gradient = model.weight.gradient()[0];
      expect_error([&] { optimiser.step(); },
                   {"Optimiser::step: ", "'bias' is not finite in step 2", "zero_gradients"});
      EXPECT_EQ(model.values(), values);
      EXPECT_EQ(model.weight.gradient()[0], gradient);
      EXPECT_EQ(optimiser.steps(), 1);
      for (size_t i = 0; i < moments.size(); ++i) {
        EXPECT_TRUE(std::equal(moments[i].begin(), moments[i].end(), state.tensors[i].values.begin()));
      }
      optimiser.zero_gradients();
      EXPECT_EQ(optimiser.step(), 0.0);
    }
  });
}

TEST(Optimiser, TheLargestGradientsHaveAFiniteNorm) {
  OddModel model;
  SGD optimiser(nn::parameters(model), {.lr = 0.0});
  for (const nn::NamedParameter& each : nn::parameters(model)) {
    std::fill(each.parameter->gradient().begin(), each.parameter->gradient().end(), 3e38F);
  }
  EXPECT_TRUE(std::isfinite(optimiser.step()));
}

TEST(Optimiser, AnOptimiserMadeLaterTakesTheParametersOver) {
  OddModel model;
  SGD first(nn::parameters(model));
  AdamW second({{"weight", &model.weight}});
  const std::vector<float> values = model.values();
  expect_error([&] { first.step(); }, {"Optimiser::step: ", "'weight' was taken over", "step that one"});
  expect_error([&] { first.zero_gradients(); }, {"'weight' was taken over"});
  EXPECT_EQ(model.values(), values);
  second.step();
  EXPECT_NE(model.values(), values);
}

TEST(Optimiser, AModelMayBeMovedButNotReplaced) {
  OddModel model;
  SGD optimiser(nn::parameters(model), {.lr = 1.0});
  OddModel moved = std::move(model);
  moved.number.values()[0] = 1.0F;
  moved.number.gradient()[0] = 1.0F;
  optimiser.step();
  EXPECT_EQ(moved.number.values()[0], 0.0F);
  moved = OddModel();
  expect_error([&] { optimiser.step(); }, {"Optimiser::step: ", "the model with parameter 'weight' is gone"});
}

TEST(Optimiser, ACopyOfAModelIsNotTrainedAlong) {
  OddModel model;
  SGD optimiser(nn::parameters(model), {.lr = 1.0});
  OddModel copy = model;
  const std::vector<float> before = copy.values();
  model.draw_gradients(1);
  optimiser.step();
  EXPECT_NE(model.values(), before);
  EXPECT_EQ(copy.values(), before);
}

TEST(Optimiser, FrozenParametersAreLeftAsTheyAre) {
  OddModel model;
  model.bias.set_frozen(true);
  const float* const place = std::as_const(model.bias).values().data();
  AdamW optimiser(nn::parameters(model), {.lr = 0.1});
  EXPECT_EQ(std::as_const(model.bias).values().data(), place);
  model.scale.set_frozen(true);  // later
  const float bias = model.bias.values()[0], scale = model.scale.values()[0], weight = model.weight.values()[0];
  model.draw_gradients(1);
  model.scale.gradient()[0] = std::numeric_limits<float>::infinity();  // does not count
  EXPECT_TRUE(std::isfinite(optimiser.step()));
  EXPECT_EQ(model.bias.values()[0], bias);
  EXPECT_EQ(model.scale.values()[0], scale);
  EXPECT_NE(model.weight.values()[0], weight);
}

TEST(Optimiser, AModelWithoutParametersHasNothingToDo) {
  AdamW optimiser({});
  EXPECT_EQ(optimiser.step(), 0.0);
  EXPECT_EQ(optimiser.steps(), 1);
}

TEST(Optimiser, ParametersLieOneAfterTheOtherOnCacheLines) {
  OddModel model;
  const SGD optimiser(nn::parameters(model));
  int64_t offset = 0;
  for (const SlabLayout::Entry& entry : optimiser.slabs().layout().entries()) {
    EXPECT_EQ(entry.offset, offset);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(optimiser.slabs().values() + entry.offset) % 64, 0U);
    offset += (entry.count + kSlabUnit - 1) / kSlabUnit * kSlabUnit;
  }
  EXPECT_EQ(model.scale.values().data(), optimiser.slabs().values() + optimiser.slabs().layout().entries()[4].offset);
}

TEST(Optimiser, RefusesOptionsAndParametersThatMakeNoSense) {
  OddModel model;
  const std::vector<nn::NamedParameter> parameters = nn::parameters(model);
  expect_error([&] { AdamW(parameters, {.lr = -1.0}); }, {"AdamW: ", "lr is -1"});
  expect_error([&] { Adam(parameters, {.beta2 = 1.0}); }, {"Adam: ", "beta2 is 1"});
  expect_error([&] { AdamW(parameters, {.clip_norm = std::nan("")}); }, {"clip_norm is nan"});
  expect_error([&] { SGD(parameters, {.nesterov = true}); }, {"SGD: ", "nesterov needs momentum"});
  expect_error([&] { SGD(parameters, {.groups = {{.contains = nullptr}}}); }, {"groups[0].contains"});
  expect_error([&] { SGD({{"a", &model.weight}, {"b", &model.weight}}); }, {"'b' is the same parameter as 'a'"});
  expect_error([&] { SGD({{"a", &model.weight}, {"a", &model.bias}}); }, {"two parameters have the name 'a'"});
  Parameter absent;
  expect_error([&] { SGD({{"a", &absent}}); }, {"'a' is absent"});
}

}  // namespace
}  // namespace heed::test
