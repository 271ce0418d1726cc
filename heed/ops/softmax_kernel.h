// Shared by softmax.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

enum class SoftmaxKind { weights, logarithms };

// One row of `count` ≥ 1 elements.
template <Isa>
void softmax_forward_kernel(SoftmaxKind kind, int64_t count, const float* x, float* y);

// One row: d_x = …, or d_x += … if `add`.
template <Isa>
void softmax_backward_kernel(SoftmaxKind kind, int64_t count, const float* y, const float* d_y, float* d_x, bool add);

}  // namespace heed
