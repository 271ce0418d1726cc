// Shared by embedding.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// One row of `count` elements: y = row · scale + position; the position may be null.
template <Isa>
void embedding_forward_kernel(int64_t count, const float* row, float scale, const float* position, float* y);

// to += scale · Σ rows, in the order of embedding.h.
struct RowSum {
  const float* const* rows = nullptr;  // the rows of d_y
  int64_t count = 0;                   // of rows
  int64_t width = 0;
  float scale = 1.0F;
  float* to = nullptr;
};

template <Isa>
void embedding_backward_kernel(const RowSum& sum);

}  // namespace heed
