// Shared by broadcast_sum.cpp and its kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/ops/strided_loop.h"
#include "heed/simd/isa.h"

namespace heed {

// The most sums that one call computes side by side.
inline constexpr int64_t kSumColumns = 64;
// Rows of a block, where each row holds an element of several sums; elements of a block of a single sum. The chains
// within a block are equally short.
inline constexpr int64_t kRowsOfBlock = 64;
inline constexpr int64_t kElementsOfBlock = 1024;

// Elements begin … end - 1 of the sequences of `columns` sums; begin is a multiple of the block.
struct SumSlab {
  const float* x;       // the first element of the sequence of the first sum
  const float* factor;  // likewise; null: 1
  int64_t x_step;       // between the sums
  int64_t factor_step;
  int64_t columns;
  const StridedLoop<2>* sequence;  // its dimensions; operand 0 is x, 1 the factor
  int64_t begin;
  int64_t end;
  double* sums;  // [columns]: receives the sums
};

// Several sums side by side: x(i, c) for element i and sum c.
template <Isa>
void sum_columns_kernel(const SumSlab& slab);

// One sum.
template <Isa>
void sum_sequence_kernel(const SumSlab& slab);

}  // namespace heed
