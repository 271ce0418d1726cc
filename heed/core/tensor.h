// TensorOf<T>: owns its elements, dynamic rank, row-major; a regular value (copy is deep, move is cheap). Tensor is
// TensorOf<float>; token ids and labels are TensorOf<int64_t> or TensorOf<int32_t>, dense masks TensorOf<bool>.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/memory.h"
#include "heed/core/view.h"

namespace heed {

// T is float, int32_t, int64_t or bool.
template <class T>
class TensorOf {
 public:
  TensorOf() = default;

  // Zeros (or false) of the given shape.
  explicit TensorOf(std::vector<int64_t> shape);

  TensorOf(const TensorOf& other);
  TensorOf(TensorOf&& other) noexcept : shape_(std::exchange(other.shape_, {})), data_(std::move(other.data_)) {}
  TensorOf& operator=(TensorOf other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~TensorOf() = default;

  const std::vector<int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t count() const { return data_ ? element_count(shape_) : 0; }

  std::span<T> values() { return {data_.get(), static_cast<size_t>(count())}; }
  std::span<const T> values() const { return {data_.get(), static_cast<size_t>(count())}; }

  // The whole tensor as a view of rank N; an Error if its rank differs. A view does not keep its tensor alive, so
  // temporaries have no view(): name the tensor first.
  template <int N>
  View<T, N> view() & {
    return {data_.get(), sizes<N>()};
  }
  template <int N>
  View<const T, N> view() const& {
    return {data_.get(), sizes<N>()};
  }
  template <int N>
  View<const T, N> view() const&& = delete;

 private:
  template <int N>
  Shape<N> sizes() const {
    check(rank() == N, "Tensor::view", "asked for rank ", N, ", but the shape is ", shape_);
    Shape<N> result{};
    std::copy_n(shape_.begin(), N, result.begin());
    return result;
  }

  std::vector<int64_t> shape_;
  AlignedArray<T> data_;
};

using Tensor = TensorOf<float>;

extern template class TensorOf<float>;
extern template class TensorOf<int32_t>;
extern template class TensorOf<int64_t>;
extern template class TensorOf<bool>;

}  // namespace heed
