// Shared by the sources and kernels of elementwise operations. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

enum class RowOp {
  add,           // y = a + b
  sub,           // y = a - b
  mul,           // y = a b
  multiply_add,  // y = fma(a, b, y)
};

// The elements data[i · step]; a step of 0 repeats one value.
template <class T>
struct StridedRow {
  T* data;
  int64_t step;
};

// One row of `count` elements. y may be a or b itself.
template <Isa>
void elementwise_kernel(RowOp op, int64_t count, StridedRow<const float> a, StridedRow<const float> b,
                        StridedRow<float> y);

}  // namespace heed
