// The basic ops in plain loops, on any scalar type: the oracle of the vector code. Tensors are all their values in
// row-major order.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "heed/ops/elementwise.h"
#include "tests/support/strided_tensor.h"

namespace heed::test {

// The position of `index` of the output in an input of `shape`, whose sizes of 1 are broadcast.
inline size_t broadcast_position(const Shape<4>& shape, const Shape<4>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < 4; ++d) at = at * shape[d] + (shape[d] == 1 ? 0 : index[d]);
  return static_cast<size_t>(at);
}

template <class T>
std::vector<T> reference_binary(BinaryOp op, const std::vector<T>& a, const Shape<4>& a_shape, const std::vector<T>& b,
                                const Shape<4>& b_shape, const Shape<4>& y_shape) {
  std::vector<T> y;
  for_each_index<4>(y_shape, [&](const Shape<4>& index) {
    const T left = a[broadcast_position(a_shape, index)];
    const T right = b[broadcast_position(b_shape, index)];
    y.push_back(op == BinaryOp::add ? left + right : (op == BinaryOp::sub ? left - right : left * right));
  });
  return y;
}

enum class Reduction { sum, mean, max };

// x [outer, n, inner] → [outer, inner]
template <class T>
std::vector<T> reference_reduce(Reduction reduction, const std::vector<T>& x, const Shape<3>& shape) {
  std::vector<T> y;
  for (int64_t o = 0; o < shape[0]; ++o) {
    for (int64_t c = 0; c < shape[2]; ++c) {
      T result = reduction == Reduction::max ? -std::numeric_limits<T>::infinity() : T(0);
      for (int64_t i = 0; i < shape[1]; ++i) {
        const T value = x[static_cast<size_t>((o * shape[1] + i) * shape[2] + c)];
        result = reduction == Reduction::max ? (value > result ? value : result) : result + value;
      }
      y.push_back(reduction == Reduction::mean ? result / static_cast<T>(shape[1]) : result);
    }
  }
  return y;
}

// x [N, C]; a row of nothing but -∞ has the weights 0 and the logarithms -∞.
template <class T>
std::vector<T> reference_softmax(bool logarithm, const std::vector<T>& x, int64_t width) {
  std::vector<T> y(x.size());
  for (size_t row = 0; row + 1 <= x.size(); row += static_cast<size_t>(width)) {
    T most = -std::numeric_limits<T>::infinity();
    for (size_t i = row; i < row + static_cast<size_t>(width); ++i) most = x[i] > most ? x[i] : most;
    T sum = 0;
    for (size_t i = row; i < row + static_cast<size_t>(width); ++i)
      sum += std::isinf(most) ? T(0) : std::exp(x[i] - most);
    for (size_t i = row; i < row + static_cast<size_t>(width); ++i) {
      if (std::isinf(most)) {
        y[i] = logarithm ? most : T(0);
      } else {
        y[i] = logarithm ? x[i] - most - std::log(sum) : std::exp(x[i] - most) / sum;
      }
    }
  }
  return y;
}

}  // namespace heed::test
