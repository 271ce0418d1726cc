#include "heed/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heed/core/error.h"

namespace heed {
namespace {

// How far `step` is on the way through `steps`, from 0 to 1.
double progress(const char* function, int64_t step, int64_t steps) {
  check(step >= 0, function, "step is ", step, ", expected 0 or more");
  check(steps > 0, function, "the schedule has ", steps, " steps, expected 1 or more");
  return static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
}

double on_line(double from, double to, double part) { return from + (to - from) * part; }
double on_cosine(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1.0 + std::cos(std::numbers::pi * part));
}

}  // namespace

double ConstantSchedule::operator()(int64_t step) const {
  progress("ConstantSchedule", step, 1);
  return 1.0;
}

double StepSchedule::operator()(int64_t step) const {
  progress("StepSchedule", step, every);
  const int64_t times = step / every;
  return std::pow(factor, static_cast<double>(times));
}

double LinearSchedule::operator()(int64_t step) const {
  return on_line(start, end, progress("LinearSchedule", step, steps));
}

double CosineSchedule::operator()(int64_t step) const {
  return on_cosine(1.0, end, progress("CosineSchedule", step, steps));
}

double InverseSquareRootSchedule::operator()(int64_t step) const {
  progress("InverseSquareRootSchedule", step, time_scale);
  return 1.0 / std::sqrt(1.0 + static_cast<double>(step) / static_cast<double>(time_scale));
}

double OneCycleSchedule::operator()(int64_t step) const {
  constexpr const char* kName = "OneCycleSchedule";
  progress(kName, step, steps);
  // As in PyTorch, the last of the steps is the end, and a peak may lie between two steps.
  const double last = static_cast<double>(steps) - 1.0;
  const double peak = rising * static_cast<double>(steps) - 1.0;
  check(peak > 0.0 && peak < last, kName, "rising = ", rising, " of ", steps,
        " steps leaves none to rise or none to fall; give more steps");
  check(start_divisor > 0.0 && end_divisor > 0.0, kName, "start_divisor is ", start_divisor, " and end_divisor ",
        end_divisor, ", expected numbers > 0");
  const double at = std::min(static_cast<double>(step), last);
  const double start = 1.0 / start_divisor;
  const auto between = [&](double from, double to, double part) {
    return linear ? on_line(from, to, part) : on_cosine(from, to, part);
  };
  if (at <= peak) return between(start, 1.0, at / peak);
  return between(1.0, start / end_divisor, (at - peak) / (last - peak));
}

double Schedule::operator()(int64_t step) const {
  constexpr const char* kName = "Schedule";
  check(step >= 0, kName, "step is ", step, ", expected 0 or more");
  check(warm_up.steps >= 0, kName, "warm_up.steps is ", warm_up.steps, ", expected 0 or more");
  if (step < warm_up.steps) return on_line(warm_up.start, 1.0, progress(kName, step, warm_up.steps));
  return std::visit([&](const auto& each) { return each(step - warm_up.steps); }, shape);
}

}  // namespace heed
