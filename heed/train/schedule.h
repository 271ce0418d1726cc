// Learning rate schedules: plain functions from the number of steps taken to a factor of the base learning rate.
//
//     const Schedule schedule{.shape = CosineSchedule{.steps = 10000}, .warm_up = {.steps = 500}};
//     optimiser.set_learning_rate(1e-3 * schedule(optimiser.steps()));     // before each step
//
// A schedule has no state: a run that resumes asks for the factor of its step. Where PyTorch has such a schedule, the
// factors are PyTorch's.
#pragma once

#include <cstdint>
#include <variant>

namespace heed {

struct ConstantSchedule {
  double operator()(int64_t step) const;
};

// factor^⌊step / every⌋: StepLR; with every = 1 ExponentialLR.
struct StepSchedule {
  int64_t every = 1;
  double factor = 0.1;
  double operator()(int64_t step) const;
};

// From start to end in a straight line, then end: LinearLR.
struct LinearSchedule {
  int64_t steps = 1;
  double start = 1.0;
  double end = 0.0;
  double operator()(int64_t step) const;
};

// From 1 to end in half a cosine: CosineAnnealingLR, whose eta_min is end times the base rate. After that it stays at
// end, where PyTorch's rises again.
struct CosineSchedule {
  int64_t steps = 1;
  double end = 0.0;
  double operator()(int64_t step) const;
};

// 1 / √(1 + step / time_scale). After a warm-up of time_scale steps this is √(time_scale / steps), counted from the
// start of the warm-up: the schedule of the original transformer.
struct InverseSquareRootSchedule {
  int64_t time_scale = 1;
  double operator()(int64_t step) const;
};

// Up from 1 / start_divisor to 1, then down to 1 / (start_divisor · end_divisor), where it stays: OneCycleLR without
// cycled momentum, relative to its max_lr. Has a warm-up of its own.
struct OneCycleSchedule {
  int64_t steps = 2;
  double rising = 0.3;  // part of the steps that rise
  double start_divisor = 25.0;
  double end_divisor = 1e4;
  bool linear = false;  // straight lines instead of cosines
  double operator()(int64_t step) const;
};

// A straight line from start to 1, which is reached after `steps` steps.
struct WarmUp {
  int64_t steps = 0;
  double start = 0.0;
};

struct Schedule {
  std::variant<ConstantSchedule, StepSchedule, LinearSchedule, CosineSchedule, InverseSquareRootSchedule,
               OneCycleSchedule>
      shape = {};
  WarmUp warm_up = {};  // the shape begins when it ends

  // The factor of the step that follows `step` steps.
  double operator()(int64_t step) const;
};

}  // namespace heed
