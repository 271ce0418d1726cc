// The rules of SGD, Adam and AdamW in plain loops, on any scalar type.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "heed/train/optimiser.h"

namespace heed::test {

template <class Scalar>
struct ReferenceOptimiser {
  std::vector<Scalar> values;
  std::vector<Scalar> first = std::vector<Scalar>(values.size());
  std::vector<Scalar> second = std::vector<Scalar>(values.size());
  int64_t steps = 0;

  void step(const SGDOptions& options, const std::vector<Scalar>& gradients) {
    ++steps;
    for (size_t i = 0; i < values.size(); ++i) {
      const Scalar g = gradients[i] + options.weight_decay * values[i];
      Scalar direction = g;
      if (options.momentum > 0.0) {
        first[i] = steps == 1 ? g : options.momentum * first[i] + (1.0 - options.dampening) * g;
        direction = options.nesterov ? g + options.momentum * first[i] : first[i];
      }
      values[i] -= options.lr * direction;
    }
  }

  template <bool decoupled>
  void step(const AdamOptionsOf<decoupled>& options, const std::vector<Scalar>& gradients) {
    ++steps;
    const double t = static_cast<double>(steps);
    const Scalar correction1 = 1.0 - std::pow(options.beta1, t);
    const Scalar correction2 = 1.0 - std::pow(options.beta2, t);
    for (size_t i = 0; i < values.size(); ++i) {
      Scalar g = gradients[i];
      if (decoupled) {
        values[i] -= options.lr * options.weight_decay * values[i];
      } else {
        g += options.weight_decay * values[i];
      }
      first[i] = options.beta1 * first[i] + (1.0 - options.beta1) * g;
      second[i] = options.beta2 * second[i] + (1.0 - options.beta2) * g * g;
      const Scalar root = std::sqrt(second[i] / correction2) + options.eps;
      values[i] -= options.lr * (first[i] / correction1) / root;
    }
  }
};

}  // namespace heed::test
