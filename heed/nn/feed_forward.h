// Feed-forward blocks: the plain one of two linear maps is part of the transformer layers (heed/nn/transformer.h); this
// is the gated one.
#pragma once

#include <cstdint>

#include "heed/nn/linear.h"
#include "heed/ops/activation.h"

namespace heed::nn {

// y = (act(x W_gᵀ) ∘ (x W_uᵀ)) W_dᵀ: SwiGLU with silu, GEGLU with gelu. Gate and up are one product.
struct GatedFeedForwardOptions {
  Activation activation = Activation::silu;
  bool bias = false;
};

struct GatedFeedForward {
  GatedFeedForward(int64_t width, int64_t hidden, const GatedFeedForwardOptions& options = {})
      : gate_up(width, 2 * hidden, {.bias = options.bias}),
        down(hidden, width, {.bias = options.bias}),
        activation(options.activation) {}

  Linear gate_up;  // rows of W_g, then of W_u: [2 · hidden, width]
  Linear down;     // [width, hidden]
  Activation activation;

  Var operator()(const Var& x, const LinearOpOptions& last = {}) const;

  void parts(auto&& visit) { visit("gate_up", gate_up), visit("down", down); }
};

}  // namespace heed::nn
