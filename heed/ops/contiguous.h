// A check for the ops that walk through memory from end to end. Internal to heed/ops.
#pragma once

#include <type_traits>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/view.h"

namespace heed {

// As check_view; also rejects a view that is not contiguous and row-major.
template <class T, int N>
void check_contiguous(const char* function, const char* name, const View<T, N>& view) {
  check_view(function, name, view);
  const Shape<N> expected = contiguous_strides<N>(view.shape());
  for (int i = 0; i < N; ++i) {
    check(view.count() == 0 || view.size(i) == 1 || view.stride(i) == expected[static_cast<size_t>(i)], function, name,
          " of shape ", view.shape(), " has strides ", view.strides(), "; it must be contiguous: copy it first");
  }
}

// The same, and rejects another shape.
template <class T, int N>
void check_contiguous(const char* function, const char* name, const View<T, N>& view,
                      const std::type_identity_t<Shape<N>>& expected) {
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_contiguous(function, name, view);
}

}  // namespace heed
