// Feed-forward blocks: the plain one of two linear maps is part of the transformer layers (heed/nn/transformer.h); this
// is the gated one.
#pragma once

#include <cstdint>

#include "heed/nn/linear.h"
#include "heed/ops/activation.h"

namespace heed::nn {

struct GatedFeedForwardOptions {
  Activation activation = Activation::silu;
  bool bias = false;
};

// y = (act(x W_gᵀ) ∘ (x W_uᵀ)) W_dᵀ: SwiGLU with silu, GEGLU with gelu. Named as Llama's state dicts have them.
struct GatedFeedForward {
  GatedFeedForward(int64_t width, int64_t hidden, const GatedFeedForwardOptions& options = {})
      : gate_proj(width, hidden, {.bias = options.bias}),
        up_proj(width, hidden, {.bias = options.bias}),
        down_proj(hidden, width, {.bias = options.bias}),
        activation(options.activation) {}

  Linear gate_proj, up_proj;  // [hidden, width]
  Linear down_proj;           // [width, hidden]
  Activation activation;

  // x [..., width] → [..., width]; `residual`, of the same shape, is added unless it is empty.
  Var operator()(const Var& x, const Var& residual = {}) const;

  void parts(auto&& visit) { visit("gate_proj", gate_proj), visit("up_proj", up_proj), visit("down_proj", down_proj); }
};

}  // namespace heed::nn
