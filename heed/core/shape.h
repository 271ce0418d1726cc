// Shapes: the size of each dimension, printed as [2, 3].
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heed {

template <int N>
using Shape = std::array<int64_t, N>;

// "[2, 3, 4]", the form used in errors and plans.
template <class Sizes>
std::string to_text(const Sizes& sizes) {
  std::string text = "[";
  bool first = true;
  for (const int64_t size : sizes) {
    if (!first) text += ", ";
    text += std::to_string(size);
    first = false;
  }
  return text + "]";
}

namespace detail {
// Not inline: if the compiler sees the limit, it warns wherever a count is used as an array size.
int64_t limit_of_product(int64_t a, int64_t b);
}  // namespace detail

// a · b, clamped to the range of int64_t.
inline int64_t multiply_saturating(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? detail::limit_of_product(a, b) : product;
}

// Number of elements; 1 for rank 0. A size of 0 gives 0, even if the product of the other sizes overflows.
template <class Sizes>
int64_t element_count(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (size == 0) return 0;
    count = multiply_saturating(count, size);
  }
  return count;
}

// Row-major strides, in elements: the last dimension is contiguous.
template <int N>
Shape<N> contiguous_strides(const Shape<N>& shape) {
  Shape<N> strides{};
  int64_t step = 1;
  for (int i = N - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = step;
    step = multiply_saturating(step, shape[static_cast<size_t>(i)]);
  }
  return strides;
}

}  // namespace heed
