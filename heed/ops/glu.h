// Gated linear units: y = act(a) ∘ b. With silu this is SwiGLU, with gelu GEGLU. a and b are two tensors, or the halves
// of the rows of one, x [N, 2C]: x.slice(1, 0, C) and x.slice(1, C, C).
#pragma once

#include "heed/core/view.h"
#include "heed/ops/activation.h"
#include "heed/ops/gradient.h"

namespace heed {

// a, b, y [N, C], with contiguous rows. y may be a or b itself; any other overlap is not allowed.
void glu_forward(Activation activation, View<const float, 2> a, View<const float, 2> b, View<float, 2> y);

struct GluGradients {
  InputGradient<2> a{};  // [N, C]
  InputGradient<2> b{};  // [N, C]
};

// d_a (+)= act'(a) ∘ (d_y ∘ b),  d_b (+)= act(a) ∘ d_y, in one pass. d_a and d_b may each be a, b or d_y itself.
void glu_backward(Activation activation, View<const float, 2> a, View<const float, 2> b, View<const float, 2> d_y,
                  const GluGradients& gradients);

}  // namespace heed
