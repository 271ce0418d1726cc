// Linear: y = x Wᵀ + b, as torch.nn.Linear.
#pragma once

#include <cstdint>

#include "heed/autograd/linear_ops.h"
#include "heed/autograd/parameter.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

struct LinearOptions {
  bool bias = true;
};

struct Linear {
  Linear(int64_t inputs, int64_t outputs, const LinearOptions& options = {});

  Parameter weight;  // [outputs, inputs]
  Parameter bias;    // [outputs]

  // x [..., inputs] → [..., outputs], with an activation and a residual in the same pass.
  Var operator()(const Var& x, const LinearOpOptions& options = {}) const;

  void parts(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
