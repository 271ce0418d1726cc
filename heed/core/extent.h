// How large tensors may be. Every function that takes sizes asks here first, so that no product of them overflows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/core/error.h"
#include "heed/core/view.h"

namespace heed {

// The most elements of a tensor, and the furthest that strides may lead from its first element: a pebibyte of floats.
// Products with the small constants of a call (bytes, threads, panels) stay far within int64_t.
inline constexpr int64_t kMostElements = int64_t{1} << 48;

// The most tokens of an item and the greatest width of a head: kernels count them in 32 bits.
inline constexpr int64_t kMostLength = int64_t{1} << 30;
inline constexpr int64_t kMostWidth = int64_t{1} << 30;

// Refuses, in the name of `function`, negative sizes and more than kMostElements elements. A size of 0 does not excuse
// the others: loops over them run all the same.
template <class Sizes>
void check_sizes(const char* function, const char* name, const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    check(size >= 0, function, name, " has a negative size: ", sizes);
    count = multiply_saturating(count, std::max<int64_t>(size, 1));
  }
  check(count <= kMostElements, function, name, " has shape ", sizes,
        ": too many elements, at most 2^48 (sizes of 0 count as 1); give smaller sizes");
}

// The same for a view, and refuses strides that lead further than kMostElements elements, to either side.
template <class T, int N>
void check_extent(const char* function, const char* name, const View<T, N>& view) {
  check_sizes(function, name, view.shape());
  for (int i = 0; i < N; ++i) {
    if (view.size(i) <= 1) continue;
    const int64_t reach = multiply_saturating(view.size(i) - 1, view.stride(i));
    check(reach >= -kMostElements && reach <= kMostElements, function, name, " of shape ", view.shape(),
          " has strides ", view.strides(), ", which lead more than 2^48 elements away; give the strides of its memory");
  }
}

// Refuses a view that was never set: null, and every size 0.
template <class T, int N>
void check_given(const char* function, const char* name, const View<T, N>& view) {
  check(view.data() != nullptr || view.shape() != Shape<N>{}, function, name,
        " is a null view without a shape; give it the view of a tensor");
}

// As check_extent, and refuses a null view that has elements.
template <class T, int N>
void check_view(const char* function, const char* name, const View<T, N>& view) {
  check_extent(function, name, view);
  check(view.count() == 0 || view.data() != nullptr, function, name, " is a null view of shape ", view.shape());
}

}  // namespace heed
