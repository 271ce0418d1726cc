// The activations in double, the oracle of their vector forms.
#pragma once

#include <cmath>

#include "heed/ops/activation.h"

namespace heed::test {

inline constexpr Activation kActivations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                              Activation::gelu_tanh, Activation::silu, Activation::tanh,
                                              Activation::sigmoid};

inline double activate(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0.0 ? 0.0 : x;
    case Activation::gelu:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1.0 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
  }
  return 0.0;
}

// By central differences; exact where the activation is a straight line on both sides of x.
inline double slope_of(Activation activation, double x) {
  constexpr double kStep = 1e-5;
  return (activate(activation, x + kStep) - activate(activation, x - kStep)) / (2.0 * kStep);
}

}  // namespace heed::test
