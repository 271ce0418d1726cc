// ReduceOnPlateau: lowers the learning rate when a metric has stopped improving; PyTorch's ReduceLROnPlateau.
//
//     ReduceOnPlateau reduce({.factor = 0.5, .patience = 3});
//     optimiser.set_learning_rate(reduce(validation_loss, optimiser.learning_rate()));     // after each evaluation
#pragma once

#include <cstdint>
#include <limits>

namespace heed {

struct PlateauOptions {
  bool maximise = false;  // the metric is better when it is larger, as an accuracy
  double factor = 0.1;    // of the learning rate, when it is lowered
  int64_t patience = 10;  // evaluations without improvement that are waited for before that
  double threshold = 1e-4;
  bool relative = true;        // the threshold is a part of the best value; otherwise a difference
  int64_t cooldown = 0;        // evaluations after lowering that are not counted
  double least_rate = 0.0;     // the learning rate is not lowered below
  double least_change = 1e-8;  // nor by less than this
};

// What a run continues from.
struct PlateauState {
  double best;
  int64_t waited = 0;   // evaluations without improvement
  int64_t cooling = 0;  // evaluations that cooldown still leaves out
};

class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(const PlateauOptions& options = {});

  // The learning rate from now on. A metric that is NaN is no improvement.
  double operator()(double metric, double learning_rate);

  const PlateauState& state() const { return state_; }
  void restore(const PlateauState& state) { state_ = state; }

 private:
  bool improves(double metric) const;

  PlateauOptions options_;
  PlateauState state_;
};

}  // namespace heed
