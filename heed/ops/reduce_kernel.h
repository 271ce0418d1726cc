// Shared by reduce.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// The maximum of x[i · step + c] over i < n for each column c < columns, and the first i that has it.
template <Isa>
void max_columns_kernel(const float* x, int64_t n, int64_t step, int64_t columns, float* y, int64_t* index);

// The same for one contiguous row of n.
template <Isa>
void max_row_kernel(const float* x, int64_t n, float* y, int64_t* index);

}  // namespace heed
