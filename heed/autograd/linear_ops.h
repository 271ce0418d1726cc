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

// The feed-forward block of a transformer, linear(act(linear(x))) + residual, as one op: backward multiplies by the
// activation's derivative where the product before it writes.
struct FeedForwardVars {
  Var first_weight, first_bias;    // [hidden, inputs], [hidden] or empty
  Var second_weight, second_bias;  // [outputs, hidden], [outputs] or empty
};
Var feed_forward(const Var& x, const FeedForwardVars& parameters, const LinearOpOptions& options);

}  // namespace heed
