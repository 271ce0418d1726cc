// Tensor: owns f32, dynamic rank, row-major; a regular value (copy is deep, move is cheap).
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/memory.h"
#include "heed/core/view.h"

namespace heed {

class Tensor {
 public:
  Tensor() = default;

  // Zeros of the given shape.
  explicit Tensor(std::vector<int64_t> shape);

  Tensor(const Tensor& other);
  Tensor(Tensor&& other) noexcept : shape_(std::exchange(other.shape_, {})), data_(std::move(other.data_)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Tensor() = default;

  const std::vector<int64_t>& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t count() const { return data_ ? element_count(shape_) : 0; }

  std::span<float> values() { return {data_.get(), static_cast<size_t>(count())}; }
  std::span<const float> values() const { return {data_.get(), static_cast<size_t>(count())}; }

  // The whole tensor as a view of rank N; an error when its rank is another.
  template <int N>
  View<float, N> view() {
    return {data_.get(), sizes<N>()};
  }
  template <int N>
  View<const float, N> view() const {
    return {data_.get(), sizes<N>()};
  }

 private:
  template <int N>
  Shape<N> sizes() const {
    check(rank() == N, "Tensor::view", "asked for rank ", N, ", but the shape is ", shape_);
    Shape<N> result{};
    std::copy_n(shape_.begin(), N, result.begin());
    return result;
  }

  std::vector<int64_t> shape_;
  AlignedArray<float> data_;
};

}  // namespace heed
