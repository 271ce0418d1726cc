// The optimisers and schedules beside PyTorch's.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "heed/train/optimiser.h"
#include "heed/train/reduce_on_plateau.h"
#include "heed/train/schedule.h"
#include "tests/support/every_isa.h"
#include "tests/support/golden_file.h"

namespace heed::test {
namespace {

SGDOptions sgd_options(const NnGolden& golden) {
  return {.lr = golden.option<double>("arguments/lr"),
          .momentum = golden.option<double>("arguments/momentum", 0.0),
          .dampening = golden.option<double>("arguments/dampening", 0.0),
          .weight_decay = golden.option<double>("arguments/weight_decay", 0.0),
          .nesterov = golden.option<bool>("arguments/nesterov", false)};
}

template <class Options>
Options adam_options(const NnGolden& golden) {
  const Options defaults;
  return {.lr = golden.option<double>("arguments/lr"),
          .beta1 = golden.option<double>("arguments/betas/0", defaults.beta1),
          .beta2 = golden.option<double>("arguments/betas/1", defaults.beta2),
          .eps = golden.option<double>("arguments/eps", defaults.eps),
          .weight_decay = golden.option<double>("arguments/weight_decay", defaults.weight_decay)};
}

template <class Rule, class Options>
void expect_golden(const NnGolden& golden, const Options& options) {
  const Tensor before = golden.tensor("param/p"), gradients = golden.tensor("in/gradients");
  Parameter parameter(Dims(before.shape()));
  std::copy(before.values().begin(), before.values().end(), parameter.values().begin());
  Rule optimiser({{"p", &parameter}}, options);
  auto gradient = gradients.values().begin();
  auto expected = golden.doubles("out/parameters").values.begin();
  for (int64_t step = 0; step < gradients.shape()[0]; ++step) {
    std::copy_n(gradient, parameter.count(), parameter.gradient().begin());
    gradient += parameter.count();
    optimiser.step();
    for (const float value : parameter.values()) ASSERT_NEAR(static_cast<double>(value), *expected++, 1e-6);
  }
}

TEST(OptimiserGolden, StepsArePyTorchs) {
  on_every_isa([] {
    for (const NnGolden& golden : load_nn_goldens("optimizer")) {
      SCOPED_TRACE(golden.name());
      const auto rule = golden.option<std::string>("optimizer");
      if (rule == "SGD") expect_golden<SGD>(golden, sgd_options(golden));
      if (rule == "Adam") expect_golden<Adam>(golden, adam_options<AdamOptions>(golden));
      if (rule == "AdamW") expect_golden<AdamW>(golden, adam_options<AdamWOptions>(golden));
    }
  });
}

void expect_rates(const NnGolden& golden, const Schedule& schedule, int64_t last = 1000) {
  const std::vector<double>& rates = golden.doubles("out/lr").values;
  for (size_t step = 0; step < rates.size(); ++step) {
    if (static_cast<int64_t>(step) > last) break;
    EXPECT_NEAR(schedule(static_cast<int64_t>(step)), rates[step], 1e-12) << "step " << step;
  }
}

TEST(ScheduleGolden, FactorsArePyTorchs) {
  const auto integer = [](const NnGolden& golden, const char* name) {
    return golden.option<int64_t>(std::string("arguments/") + name);
  };
  const auto number = [](const NnGolden& golden, const char* name, double otherwise = 0.0) {
    return golden.option<double>(std::string("arguments/") + name, otherwise);
  };
  int seen = 0;
  for (const NnGolden& golden : load_nn_goldens("schedule")) {
    SCOPED_TRACE(golden.name());
    const auto kind = golden.option<std::string>("schedule");
    const bool is_known = golden.name() != "one_cycle_three_phase";
    if (kind == "StepLR") {
      expect_rates(golden, {StepSchedule{integer(golden, "step_size"), number(golden, "gamma")}});
    } else if (kind == "ExponentialLR") {
      expect_rates(golden, {StepSchedule{1, number(golden, "gamma")}});
    } else if (kind == "LinearLR") {
      expect_rates(golden, {LinearSchedule{.steps = integer(golden, "total_iters"),
                                           .start = number(golden, "start_factor"),
                                           .end = number(golden, "end_factor")}});
    } else if (kind == "CosineAnnealingLR") {
      const int64_t steps = integer(golden, "T_max");
      expect_rates(golden, {CosineSchedule{.steps = steps, .end = number(golden, "eta_min")}}, steps);
    } else if (kind == "OneCycleLR" && is_known) {
      expect_rates(golden, {OneCycleSchedule{
                               .steps = integer(golden, "total_steps"),
                               .rising = number(golden, "pct_start", 0.3),
                               .start_divisor = number(golden, "div_factor", 25.0),
                               .end_divisor = number(golden, "final_div_factor", 1e4),
                               .linear = golden.option<std::string>("arguments/anneal_strategy", "cos") == "linear"}});
    } else if (kind == "SequentialLR") {
      expect_rates(golden, {.shape = CosineSchedule{.steps = integer(golden, "cosine/T_max")},
                            .warm_up = {.steps = integer(golden, "linear/total_iters"),
                                        .start = number(golden, "linear/start_factor")}});
    } else {
      continue;
    }
    ++seen;
  }
  EXPECT_EQ(seen, 9);
}

TEST(ScheduleGolden, ReduceOnPlateauIsPyTorchs) {
  int seen = 0;
  for (const NnGolden& golden : load_nn_goldens("schedule")) {
    if (golden.option<std::string>("schedule") != "ReduceLROnPlateau") continue;
    SCOPED_TRACE(golden.name());
    ReduceOnPlateau reduce({.maximise = golden.option<std::string>("arguments/mode", "min") == "max",
                            .factor = golden.option<double>("arguments/factor"),
                            .patience = golden.option<int64_t>("arguments/patience"),
                            .threshold = golden.option<double>("arguments/threshold", 1e-4),
                            .relative = golden.option<std::string>("arguments/threshold_mode", "rel") == "rel",
                            .cooldown = golden.option<int64_t>("arguments/cooldown", 0),
                            .least_rate = golden.option<double>("arguments/min_lr", 0.0)});
    const std::vector<double>& rates = golden.doubles("out/lr").values;
    const std::vector<double>& metrics = golden.doubles("in/metric").values;
    double rate = golden.option<double>("lr");
    for (size_t i = 0; i < rates.size(); ++i) {
      EXPECT_EQ(rate, rates[i]) << "step " << i;
      rate = reduce(metrics[i], rate);
    }
    ++seen;
  }
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace heed::test
