// Shared by glu.cpp and its kernels. Internal to heed/ops.
#pragma once

#include "heed/ops/activation.h"
#include "heed/simd/isa.h"

namespace heed {

// One row of `count` elements: y = act(a) ∘ b.
template <Isa>
void glu_forward_kernel(Activation activation, int64_t count, const float* a, const float* b, float* y);

// One row of backward. The gradients may be null.
struct GluRow {
  int64_t count = 0;
  const float* a = nullptr;
  const float* b = nullptr;
  const float* d_y = nullptr;
  float* d_a = nullptr;
  float* d_b = nullptr;
  bool add_a = false;
  bool add_b = false;
};

template <Isa>
void glu_backward_kernel(Activation activation, const GluRow& row);

}  // namespace heed
