// View<T, N>: a typed, strided, non-owning view with a compile-time rank. Every op and kernel takes views.
#pragma once

#include <concepts>
#include <type_traits>

#include "heed/core/shape.h"

namespace heed {

// Only View<float> → View<const float> and its like convert implicitly.
template <class U, class T>
concept MutableOf = std::same_as<const U, T> && !std::same_as<U, T>;

template <class T, int N>
class View {
 public:
  View() = default;

  // Contiguous, row-major.
  View(T* data, const Shape<N>& shape) : View(data, shape, contiguous_strides<N>(shape)) {}

  // Strides in elements; 0 broadcasts a dimension, a negative stride walks backwards.
  View(T* data, const Shape<N>& shape, const Shape<N>& strides) : data_(data), shape_(shape), strides_(strides) {}

  // View<float> converts to View<const float>.
  template <MutableOf<T> U>
  View(const View<U, N>& other) : View(other.data(), other.shape(), other.strides()) {}

  T* data() const { return data_; }
  const Shape<N>& shape() const { return shape_; }
  const Shape<N>& strides() const { return strides_; }
  int64_t size(int dimension) const { return shape_[static_cast<size_t>(dimension)]; }
  int64_t stride(int dimension) const { return strides_[static_cast<size_t>(dimension)]; }
  int64_t count() const { return element_count(shape_); }

  // The element at N indices.
  template <std::integral... Index>
  T& operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "one index for each dimension");
    return data_[offset(index...)];
  }

  // The rank N-1 view at `index` of the first dimension.
  View<T, N - 1> operator[](int64_t index) const {
    static_assert(N > 1, "use view(i) for the elements of a view of rank 1");
    Shape<N - 1> shape{};
    Shape<N - 1> strides{};
    for (size_t i = 1; i < N; ++i) {
      shape[i - 1] = shape_[i];
      strides[i - 1] = strides_[i];
    }
    return {data_ + index * strides_[0], shape, strides};
  }

  // Indices begin … begin + count - 1 of one dimension.
  View slice(int dimension, int64_t begin, int64_t count) const {
    View part = *this;
    part.data_ += begin * stride(dimension);
    part.shape_[static_cast<size_t>(dimension)] = count;
    return part;
  }

  // Dimension i of the result is dimension order[i] of this view.
  View permuted(const std::array<int, N>& order) const {
    View result = *this;
    for (size_t i = 0; i < N; ++i) {
      result.shape_[i] = size(order[i]);
      result.strides_[i] = stride(order[i]);
    }
    return result;
  }

  View transposed() const {
    static_assert(N == 2, "use permuted() for other ranks");
    return permuted({1, 0});
  }

 private:
  template <std::integral... Index>
  int64_t offset(Index... index) const {
    int64_t at = 0;
    size_t i = 0;
    ((at += static_cast<int64_t>(index) * strides_[i++]), ...);
    return at;
  }

  T* data_ = nullptr;
  Shape<N> shape_{};
  Shape<N> strides_{};
};

}  // namespace heed
