#include "heed/train/moving_average.h"

#include <algorithm>
#include <cmath>

#include "heed/core/error.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"
#include "heed/train/optimiser_kernel.h"

namespace heed {

MovingAverage::MovingAverage(const std::vector<nn::NamedParameter>& parameters, const MovingAverageOptions& options)
    : options_(options),
      layout_("MovingAverage", parameters),
      average_(layout_.allocate()),
      values_(layout_.entries().size()) {
  constexpr const char* kName = "MovingAverage";
  check(options.decay >= 0.0 && options.decay < 1.0, kName, "decay is ", options.decay,
        ", expected a number in [0, 1)");
  for_each_segment(kName, [](const SlabLayout::Segment& segment, const float* values, float* average) {
    std::copy_n(values, segment.count, average);
  });
}

// Parameters may have moved to other slabs since the last call.
template <class Body>
void MovingAverage::for_each_segment(const char* function, Body body) {
  for (size_t i = 0; i < values_.size(); ++i) {
    values_[i] = layout_.parameter(function, layout_.entries()[i])->value;
  }
  parallel_for(layout_.tasks(), [&](int64_t task, int) {
    layout_.for_each_segment(task, [&](size_t i) {
      const SlabLayout::Segment& segment = layout_.segments()[i];
      body(segment, values_[segment.entry] + segment.begin, average_.get() + layout_.offset(segment));
    });
  });
}

void MovingAverage::update() {
  constexpr const char* kName = "MovingAverage::update";
  check_out(kName);
  const double seen = 1.0 - std::pow(options_.decay, static_cast<double>(updates_ + 1));
  const auto gain = static_cast<float>((1.0 - options_.decay) / (options_.bias_corrected ? seen : 1.0));
  dispatch([&]<Isa isa>() {
    for_each_segment(kName, [&](const SlabLayout::Segment& segment, const float* values, float* average) {
      average_kernel<isa>(segment.count, gain, values, average);
    });
  });
  ++updates_;
}

void MovingAverage::swap() {
  for_each_segment("MovingAverage::swap", [](const SlabLayout::Segment& segment, float* values, float* average) {
    std::swap_ranges(values, values + segment.count, average);
  });
  layout_.mark_changed();
  in_model_ = !in_model_;
}

void MovingAverage::check_out(const char* function) const {
  check(!in_model_, function, "the model has the averaged weights; swap() its own back first");
}

MovingAverageState MovingAverage::state() const {
  check_out("MovingAverage::state");
  const StateSlab slab{"average", average_.get()};
  return {.updates = updates_, .tensors = state_tensors(layout_, {&slab, 1})};
}

void MovingAverage::restore(const MovingAverageState& state) {
  constexpr const char* kName = "MovingAverage::restore";
  check_out(kName);
  check(state.updates >= 0, kName, "the state has ", state.updates, " updates, expected 0 or more");
  const StateSlab slab{"average", average_.get()};
  restore_state_tensors(kName, layout_, {&slab, 1}, state.tensors);
  updates_ = state.updates;
}

}  // namespace heed
