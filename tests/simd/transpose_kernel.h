// heed/simd/transpose.h for the tests.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed::test {

template <Isa>
int64_t lanes_kernel();

struct RowsToLanes {
  const float* from;
  int64_t from_step;
  int64_t rows;
  int64_t columns;
  float factor;
  float* to;
  int64_t to_step;
};

template <Isa>
void rows_to_lanes_kernel(const RowsToLanes& call);

struct LanesToRows {
  const float* from;
  int64_t from_step;
  const float* factor;
  int64_t rows;
  int64_t columns;
  float* to;
  int64_t to_step;
};

template <Isa>
void lanes_to_rows_kernel(const LanesToRows& call);

}  // namespace heed::test
