// Activations: y = act(x), and d_x = act'(x) d_y.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

enum class Activation {
  none,
  relu,       // max(x, 0)
  gelu,       // x · Φ(x), with Φ from erf
  gelu_tanh,  // x · (1 + tanh(√(2/π) · (x + 0.044715 x³))) / 2
  silu,       // x · sigmoid(x)
  tanh,
  sigmoid,  // 1 / (1 + e^-x)
};

// y [M, N] = act(x) + residual; the residual may be null. y may alias x or the residual exactly. Rows are contiguous.
// The bits are those of matmul's epilogue.
void activation_forward(Activation activation, View<const float, 2> x, View<const float, 2> residual, View<float, 2> y);

// d_x (+)= act'(x) ∘ d_y, with the x of forward. d_x may alias d_y exactly. The gradient of relu at 0 is 0, as in
// PyTorch.
void activation_backward(Activation activation, View<const float, 2> x, View<const float, 2> d_y,
                         const InputGradient<2>& d_x);

// d_x (+)= derivative ∘ d_y, with the derivative that matmul kept: the values of activation_backward. Where the
// derivative is 0 the result is +0, even if d_y is not finite. d_x may alias d_y exactly.
void derivative_backward(View<const float, 2> derivative, View<const float, 2> d_y, const InputGradient<2>& d_x);

}  // namespace heed
