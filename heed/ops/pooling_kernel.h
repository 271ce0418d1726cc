// Shared by pooling.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// A rectangle of a plane [H, W, C], of x or of d_y.
struct PoolRectangle {
  const float* from = nullptr;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_step = 0;  // from a row to the next, in floats
  int64_t width = 0;     // C, from a column to the next
};

// y = the maximum of each channel, and the first place that has it; places are first_place + row · place_step + column.
template <Isa>
void max_rectangle_kernel(const PoolRectangle& rectangle, int32_t first_place, int32_t place_step, float* y,
                          int32_t* index);

// y = factor · the sum of each channel, row by row, or y += … if `add`. An empty rectangle has the sum 0.
template <Isa>
void sum_rectangle_kernel(const PoolRectangle& rectangle, float factor, float* y, bool add);

}  // namespace heed
