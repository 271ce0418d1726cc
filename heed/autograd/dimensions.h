// Dimensions as ops take them. Internal to heed/autograd.
#pragma once

#include <algorithm>
#include "heed/core/dims.h"
#include "heed/core/error.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// 0 … rank-1 from a dimension that may count from the last; an Error names `function`.
inline int dimension_of(const char* function, const Dims& shape, int dim) {
  const int at = dim < 0 ? dim + shape.rank() : dim;
  check(at >= 0 && at < shape.rank(), function, "dim is ", dim, ", but the shape is ", shape);
  return at;
}

// [outer, n, inner] with n the size of `dim`.
inline Shape<3> around(const Dims& shape, int dim) {
  Shape<3> result{1, shape[dim], 1};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != dim) result[i < dim ? 0 : 2] *= shape[i];
  }
  return result;
}

// `shape` with sizes of 1 before it.
template <int N>
Shape<N> widened(const Dims& shape) {
  Shape<N> result{};
  result.fill(1);
  std::copy(shape.begin(), shape.end(), result.end() - shape.rank());
  return result;
}

}  // namespace heed
