// Overlap tests for views: an output must not share memory with an input that is still to be read.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "heed/core/error.h"
#include "heed/core/view.h"

namespace heed {

namespace detail {
// may_share_memory() below for any rank; `distance` is the offset, in elements, from the first element of a to that of
// b.
struct Extents {
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};
bool may_share_memory(const Extents& a, const Extents& b, int64_t distance);
}  // namespace detail

// False if no element can be in both: the views are disjoint, or side by side in the rows of one array, like q, k and v
// of a fused projection. True if they share an element, or interleave in a way that this test does not resolve.
template <class T, int N, class U, int M>
bool may_share_memory(const View<T, N>& a, const View<U, M>& b) {
  static_assert(std::is_same_v<std::remove_const_t<T>, std::remove_const_t<U>>, "elements of one type");
  const auto address = [](const auto& view) { return reinterpret_cast<uintptr_t>(view.data()); };
  const auto bytes = static_cast<int64_t>(address(b) - address(a));
  return detail::may_share_memory({a.shape(), a.strides()}, {b.shape(), b.strides()},
                                  bytes / static_cast<int64_t>(sizeof(T)));
}

// True if the views have the same elements in the same order.
template <class T, class U, int N>
bool same_view(const View<T, N>& a, const View<U, N>& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

// Rejects a result that shares memory with an input, with an error that names `function`.
template <class T, int N, class U, int M>
void check_apart(const char* function, const char* result_name, const View<T, N>& result, const char* input_name,
                 const View<U, M>& input) {
  check(!may_share_memory(result, input), function, result_name, " of shape ", result.shape(), " shares memory with ",
        input_name, ", which is read after a part of ", result_name, " was written; give it memory of its own");
}

}  // namespace heed
