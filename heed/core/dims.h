// Dims: the sizes of a tensor whose rank is known only at run time. Held inline, so copying allocates nothing.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/shape.h"

namespace heed {

class Dims {
 public:
  static constexpr int kMostRank = 6;

  // Rank 0: a single number.
  Dims() = default;
  Dims(std::initializer_list<int64_t> sizes) : Dims(std::span<const int64_t>(sizes.begin(), sizes.size())) {}
  Dims(const std::vector<int64_t>& sizes) : Dims(std::span<const int64_t>(sizes)) {}
  template <size_t N>
  Dims(const std::array<int64_t, N>& sizes) : Dims(std::span<const int64_t>(sizes)) {}
  explicit Dims(std::span<const int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
    check(sizes.size() <= kMostRank, "Dims", "rank ", sizes.size(), " is more than ", kMostRank, ": ", sizes);
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  }

  int rank() const { return rank_; }
  // Negative dimensions count from the last, which is -1.
  int64_t operator[](int dimension) const { return sizes_[index(dimension)]; }
  int64_t& operator[](int dimension) { return sizes_[index(dimension)]; }
  int64_t count() const { return element_count(*this); }

  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }

  // As a shape of rank N, which must be the rank.
  template <int N>
  Shape<N> shape() const {
    check(rank_ == N, "Dims", "asked for rank ", N, ", but the shape is ", *this);
    Shape<N> result{};
    std::copy_n(begin(), N, result.begin());
    return result;
  }

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  size_t index(int dimension) const {
    const int at = dimension < 0 ? dimension + rank_ : dimension;
    check(at >= 0 && at < rank_, "Dims", "dimension ", dimension, " of shape ", *this);
    return static_cast<size_t>(at);
  }

  int rank_ = 0;
  std::array<int64_t, kMostRank> sizes_{};
};

}  // namespace heed
