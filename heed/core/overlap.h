// Do two views share memory? What a function writes must not be what it still has to read.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "heed/core/error.h"
#include "heed/core/view.h"

namespace heed {

namespace detail {
// The question below for sizes and strides of any rank; `distance` leads from the first element of a to that of b.
struct Extents {
  std::span<const int64_t> sizes;
  std::span<const int64_t> strides;
};
bool may_share_memory(const Extents& a, const Extents& b, int64_t distance);
}  // namespace detail

// False where no element can be in both: the views lie apart, or side by side in the rows of one array, as q, k and v
// of a fused projection do. True where they share an element, or interleave in a way that this test does not resolve.
template <class T, int N, class U, int M>
bool may_share_memory(const View<T, N>& a, const View<U, M>& b) {
  static_assert(std::is_same_v<std::remove_const_t<T>, std::remove_const_t<U>>, "elements of one type");
  const auto address = [](const auto& view) { return reinterpret_cast<uintptr_t>(view.data()); };
  const auto bytes = static_cast<int64_t>(address(b) - address(a));
  return detail::may_share_memory({a.shape(), a.strides()}, {b.shape(), b.strides()},
                                  bytes / static_cast<int64_t>(sizeof(T)));
}

// The same elements in the same order?
template <class T, class U, int N>
bool same_view(const View<T, N>& a, const View<U, N>& b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

// Refuses, in the name of `function`, a result that shares memory with an input.
template <class T, int N, class U, int M>
void check_apart(const char* function, const char* result_name, const View<T, N>& result, const char* input_name,
                 const View<U, M>& input) {
  check(!may_share_memory(result, input), function, result_name, " of shape ", result.shape(), " shares memory with ",
        input_name, ", which is read after a part of ", result_name, " was written; give it memory of its own");
}

}  // namespace heed
