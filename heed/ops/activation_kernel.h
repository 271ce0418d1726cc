// Shared by activation.cpp and its kernels. Internal to heed/ops.
#pragma once

#include "heed/ops/activation.h"
#include "heed/simd/isa.h"

namespace heed {

// One row of `count` elements: y = act(x) + residual; the residual may be null.
template <Isa>
void activation_forward_kernel(Activation activation, int64_t count, const float* x, const float* residual, float* y);

// One row: d_x = act'(x) ∘ d_y, or d_x += … if `add`.
template <Isa>
void activation_backward_kernel(Activation activation, int64_t count, const float* x, const float* d_y, float* d_x,
                                bool add);

// One row: d_x = derivative ∘ d_y, or d_x += … if `add`.
template <Isa>
void derivative_backward_kernel(int64_t count, const float* derivative, const float* d_y, float* d_x, bool add);

}  // namespace heed
