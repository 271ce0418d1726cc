// Limits on tensor sizes. Every function that takes sizes checks them here first, so that no product of sizes
// overflows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/core/error.h"
#include "heed/core/view.h"

namespace heed {

// The most elements of a tensor, and the largest distance of any element from the first one: a pebibyte of floats.
// Products with the small constants of a call (bytes, threads, panels) stay far within int64_t.
inline constexpr int64_t kMostElements = int64_t{1} << 48;

// The most tokens of a batch item and the largest head width: kernels use 32-bit indices for them.
inline constexpr int64_t kMostLength = int64_t{1} << 30;
inline constexpr int64_t kMostWidth = int64_t{1} << 30;

// Rejects negative sizes and more than kMostElements elements, with an error that names `function`. The other sizes are
// limited even if one size is 0: loops over them still run.
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

// The same for a view. Also rejects strides that reach further than kMostElements elements in either direction.
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

// Rejects a default-constructed view: null, with every size 0.
template <class T, int N>
void check_given(const char* function, const char* name, const View<T, N>& view) {
  check(view.data() != nullptr || view.shape() != Shape<N>{}, function, name,
        " is a null view without a shape; give it the view of a tensor");
}

// As check_extent; also rejects a null view that has elements.
template <class T, int N>
void check_view(const char* function, const char* name, const View<T, N>& view) {
  check_extent(function, name, view);
  check(view.count() == 0 || view.data() != nullptr, function, name, " is a null view of shape ", view.shape());
}

}  // namespace heed
