// Shared by copy.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// A part of a matrix that is contiguous by rows in `to` and by columns in `from`:
// to[row · to_step + column] (+)= from[column · from_step + row].
struct TransposedTile {
  const float* from;
  int64_t from_step;
  float* to;
  int64_t to_step;
  int64_t rows;
  int64_t columns;
  bool add;
};

// The most rows and columns of a tile: its lines of both sides stay in L1.
inline constexpr int64_t kTransposedTile = 64;

template <Isa>
void transpose_kernel(const TransposedTile& tile);

// to[i] += from[i]
template <Isa>
void add_row_kernel(int64_t count, const float* from, float* to);

}  // namespace heed
