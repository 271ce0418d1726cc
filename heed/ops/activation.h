// Activations: y = act(x), and d_x = act'(x) d_y.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

enum class Activation {
  none,
  relu,       // max(x, 0)
  gelu,       // x · Φ(x), Φ by erf
  gelu_tanh,  // x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2
  silu,       // x · sigmoid(x)
};

// y [M, N] = act(x) + residual; a null residual is none. y may be x or the residual itself. Rows are contiguous.
// An element has the bits that matmul's epilogue gives it.
void activation_forward(Activation activation, View<const float, 2> x, View<const float, 2> residual, View<float, 2> y);

// d_x (+)= act'(x) ∘ d_y, with x as forward had it. d_x may be d_y itself. relu has the slope 0 at 0, as in PyTorch.
void activation_backward(Activation activation, View<const float, 2> x, View<const float, 2> d_y,
                         const InputGradient<2>& d_x);

}  // namespace heed
