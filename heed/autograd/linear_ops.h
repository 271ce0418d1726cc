// The linear map on a tape: y = act(x Wᵀ + b) + residual in one pass.
#pragma once

#include "heed/autograd/var.h"
#include "heed/ops/activation.h"

namespace heed {

struct LinearOpOptions {
  Activation activation = Activation::none;
  Var residual{};  // the shape of y; empty: none
};

// x [..., inputs], weight [outputs, inputs], bias [outputs] or empty → [..., outputs].
Var linear(const Var& x, const Var& weight, const Var& bias = {}, const LinearOpOptions& options = {});

}  // namespace heed
