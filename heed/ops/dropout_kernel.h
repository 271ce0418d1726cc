// Shared by dropout.cpp and its kernel. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/ops/dropout_bits.h"
#include "heed/simd/isa.h"

namespace heed {

// The mask of one row, and the factor of what it keeps.
struct DropoutMask {
  DropoutRow row;
  int32_t threshold = 0;
  float scale = 1.0F;
};

// One row of `count` elements: y = x ∘ mask · scale + added; `added` may be null.
template <Isa>
void dropout_kernel(const DropoutMask& mask, int64_t count, const float* x, const float* added, float* y);

}  // namespace heed
