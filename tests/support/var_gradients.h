// Gradients of ops on a tape against central differences of their own forward.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/core/rng.h"
#include "heed/core/tensor.h"

namespace heed::test {

inline Tensor random_tensor(const std::vector<int64_t>& shape, uint64_t seed = 1) {
  Tensor result(shape);
  Rng(seed).fill_normal(result.values());
  return result;
}

using VarFunction = std::function<Var(std::span<const Var> inputs)>;

// The gradients of Σ weight · f(inputs) with random weights. The step is large for f32; it is exact for ops that are
// linear in each input.
inline void expect_central_differences(const VarFunction& f, std::vector<Tensor> inputs, double tolerance = 2e-4,
                                       float step = 0.0625F) {
  std::vector<float> weight;
  const auto weighted = [&] {
    Tape tape;
    const NoGrad no_grad(tape);
    std::vector<Var> vars;
    for (const Tensor& input : inputs) vars.push_back(tape.constant(input));
    const Var y = f(vars);
    double sum = 0.0;
    for (size_t i = 0; i < weight.size(); ++i) {
      sum += static_cast<double>(weight[i]) * static_cast<double>(y.values()[i]);
    }
    return sum;
  };
  Tape tape;
  std::vector<Var> leaves;
  for (const Tensor& input : inputs) leaves.push_back(tape.leaf(input));
  const Var y = f(leaves);
  weight.resize(static_cast<size_t>(y.count()));
  Rng(99).fill_normal(weight);
  y.backward(weight);
  for (size_t n = 0; n < inputs.size(); ++n) {
    const std::span<const float> gradients = leaves[n].gradients();
    for (size_t i = 0; i < gradients.size(); ++i) {
      float& element = inputs[n].values()[i];
      const float kept = element;
      element = kept + step;
      const double above = weighted();
      element = kept - step;
      const double below = weighted();
      element = kept;
      EXPECT_NEAR(static_cast<double>(gradients[i]), (above - below) / (2.0 * static_cast<double>(step)), tolerance)
          << "input " << n << ", element " << i;
    }
  }
}

}  // namespace heed::test
