// Broadcasting of views. Internal to heed/ops.
#pragma once

#include <cstddef>
#include <type_traits>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/overlap.h"
#include "heed/core/view.h"

namespace heed {

// The view with `shape`: its sizes are those of the shape, or 1 and repeated by a stride of 0. An Error names the
// function otherwise.
template <class T, int N>
View<T, N> broadcast_to(const char* function, const char* name, const View<T, N>& view,
                        const std::type_identity_t<Shape<N>>& shape) {
  Shape<N> strides = view.strides();
  for (size_t i = 0; i < N; ++i) {
    check(view.shape()[i] == shape[i] || view.shape()[i] == 1, function, name, " has shape ", view.shape(),
          ", which does not broadcast to ", shape, ": each size must be equal or 1");
    if (view.shape()[i] != shape[i]) strides[i] = 0;
  }
  return {view.data(), shape, strides};
}

// Rejects a result whose elements share memory with each other.
template <int N>
void check_writable(const char* function, const char* name, const View<float, N>& view) {
  check_view(function, name, view);
  for (int i = 0; i < N; ++i) {
    check(view.size(i) <= 1 || view.stride(i) != 0 || view.count() == 0, function, name, " of shape ", view.shape(),
          " has strides ", view.strides(), ": a stride of 0 cannot be written; give each element memory of its own");
  }
}

// Rejects a result that shares memory with an input, unless it is the same view.
template <class T, int N>
void check_apart_or_same(const char* function, const char* result_name, const View<float, N>& result,
                         const char* input_name, const View<T, N>& input) {
  if (!same_view(result, input)) check_apart(function, result_name, result, input_name, input);
}

}  // namespace heed
