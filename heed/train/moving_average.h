// MovingAverage: an exponential moving average of a model's weights, which often does better than the last weights.
//
//     MovingAverage average(nn::parameters(model), {.decay = 0.999});
//     … optimiser.step(); average.update(); …
//     average.swap();      // the model has the averaged weights
//     … evaluate or save …
//     average.swap();      // and its own again
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/nn/module.h"
#include "heed/train/slab_layout.h"
#include "heed/train/state_tensors.h"

namespace heed {

struct MovingAverageOptions {
  double decay = 0.999;
  // The weights when the average was made do not count: after t updates the gain is (1 - decay) / (1 - decay^t), which
  // makes the average that of the weights seen, without a bias towards 0 or the initial ones.
  bool bias_corrected = false;
};

struct MovingAverageState {
  int64_t updates = 0;
  std::vector<StateTensor> tensors;  // average.NAME
};

class MovingAverage {
 public:
  // Of the parameters that are not frozen. Starts with their values.
  explicit MovingAverage(const std::vector<nn::NamedParameter>& parameters, const MovingAverageOptions& options = {});
  MovingAverage(const MovingAverage&) = delete;
  MovingAverage& operator=(const MovingAverage&) = delete;
  MovingAverage(MovingAverage&&) noexcept = default;
  MovingAverage& operator=(MovingAverage&&) noexcept = default;
  ~MovingAverage() = default;

  // average += gain · (weights - average), with gain = 1 - decay. An Error while the average is in the model.
  void update();

  // Exchanges the average and the weights of the model. An optimiser's step would train the average: swap back first.
  void swap();
  bool in_model() const { return in_model_; }

  int64_t updates() const { return updates_; }

  // As of an optimiser (optimiser.h). An Error while the average is in the model.
  MovingAverageState state() const;
  void restore(const MovingAverageState& state);

 private:
  void check_out(const char* function) const;
  // body(segment, values, average) with the memory of each segment, in parallel.
  template <class Body>
  void for_each_segment(const char* function, Body body);

  MovingAverageOptions options_;
  SlabLayout layout_;
  std::shared_ptr<float[]> average_;
  std::vector<float*> values_;  // where each parameter is now
  int64_t updates_ = 0;
  bool in_model_ = false;
};

}  // namespace heed
