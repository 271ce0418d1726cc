#include "heed/train/reduce_on_plateau.h"

#include <algorithm>

#include "heed/core/error.h"

namespace heed {

ReduceOnPlateau::ReduceOnPlateau(const PlateauOptions& options)
    : options_(options), state_{.best = (options.maximise ? -1.0 : 1.0) * std::numeric_limits<double>::infinity()} {
  constexpr const char* kName = "ReduceOnPlateau";
  check(options.factor >= 0.0 && options.factor < 1.0, kName, "factor is ", options.factor,
        ", expected a number in [0, 1)");
  check(options.patience >= 0 && options.cooldown >= 0, kName, "patience is ", options.patience, " and cooldown ",
        options.cooldown, ", expected 0 or more");
}

double ReduceOnPlateau::operator()(double metric, double learning_rate) {
  if (improves(metric)) {
    state_.best = metric;
    state_.waited = 0;
  } else {
    ++state_.waited;
  }
  if (state_.cooling > 0) {
    --state_.cooling;
    state_.waited = 0;
  }
  if (state_.waited <= options_.patience) return learning_rate;
  state_.waited = 0;
  state_.cooling = options_.cooldown;
  const double lowered = std::max(learning_rate * options_.factor, options_.least_rate);
  return learning_rate - lowered > options_.least_change ? lowered : learning_rate;
}

bool ReduceOnPlateau::improves(double metric) const {
  const double sign = options_.maximise ? 1.0 : -1.0;
  const double bound =
      options_.relative ? state_.best * (1.0 + sign * options_.threshold) : state_.best + sign * options_.threshold;
  return options_.maximise ? metric > bound : metric < bound;
}

}  // namespace heed
