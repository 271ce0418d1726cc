// A loop over the elements of strided views of one shape, with as few dimensions as their strides allow. Internal to
// heed/ops.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>

#include "heed/core/memory.h"
#include "heed/core/view.h"
#include "heed/parallel/parallel_for.h"

namespace heed {

inline constexpr int kMostLoopRank = 6;

// Elements of a task: enough for some microseconds.
inline constexpr int64_t kTaskElements = int64_t{1} << 14;

// One value for each operand: its offset, or its stride in a dimension.
template <int Operands>
using Offsets = std::array<int64_t, Operands>;

template <int Operands>
struct StridedLoop {
  int rank = 0;
  std::array<int64_t, kMostLoopRank> sizes{};
  std::array<Offsets<Operands>, kMostLoopRank> strides{};

  // Appends an inner dimension. A size of 1 disappears, and a dimension that continues the one around it in every
  // operand is merged with it.
  void append(int64_t size, const Offsets<Operands>& steps) {
    if (size == 1) return;
    if (rank > 0) {
      const auto outer = static_cast<size_t>(rank - 1);
      bool continues = true;
      for (size_t n = 0; n < Operands; ++n) continues = continues && strides[outer][n] == steps[n] * size;
      if (continues) {
        sizes[outer] *= size;
        strides[outer] = steps;
        return;
      }
    }
    sizes[static_cast<size_t>(rank)] = size;
    strides[static_cast<size_t>(rank)] = steps;
    ++rank;
  }

  int64_t count(int dimensions) const {
    int64_t product = 1;
    for (int i = 0; i < dimensions; ++i) product *= sizes[static_cast<size_t>(i)];
    return product;
  }
  int64_t count() const { return count(rank); }

  // The innermost dimension is a row; a single element is a contiguous row of length 1.
  int64_t row_length() const { return rank == 0 ? 1 : sizes[static_cast<size_t>(rank - 1)]; }
  int64_t rows() const { return count(std::max(rank - 1, 0)); }
  int64_t row_stride(int operand) const {
    return rank == 0 ? 1 : strides[static_cast<size_t>(rank - 1)][static_cast<size_t>(operand)];
  }
};

// The loop over the elements of `shape` in the order of operand 0 in memory: for loops where order is free.
template <int Operands, int N>
StridedLoop<Operands> memory_order_loop(const Shape<N>& shape, const std::array<Shape<N>, Operands>& strides) {
  static_assert(N <= kMostLoopRank);
  std::array<size_t, N> order{};
  std::iota(order.begin(), order.end(), size_t{0});
  const auto step = [&](size_t i) { return strides[0][i] < 0 ? -strides[0][i] : strides[0][i]; };
  // By insertion: std::stable_sort allocates.
  for (size_t i = 1; i < N; ++i) {
    for (size_t j = i; j > 0 && step(order[j - 1]) < step(order[j]); --j) std::swap(order[j - 1], order[j]);
  }
  StridedLoop<Operands> loop;
  for (const size_t i : order) {
    Offsets<Operands> steps;
    for (size_t n = 0; n < Operands; ++n) steps[n] = strides[n][i];
    loop.append(shape[i], steps);
  }
  return loop;
}

// Walks the first `rank` dimensions of a loop in row-major order, from index `start` on.
template <int Operands>
class StridedIndex {
 public:
  StridedIndex(const StridedLoop<Operands>& loop, int rank, int64_t start) : loop_(loop), rank_(rank) {
    for (int i = rank - 1; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      index_[d] = start % loop.sizes[d];
      start /= loop.sizes[d];
      move(d, index_[d]);
    }
  }

  const Offsets<Operands>& offsets() const { return offsets_; }

  void next() {
    for (int i = rank_ - 1; i >= 0; --i) {
      const auto d = static_cast<size_t>(i);
      move(d, 1);
      if (++index_[d] < loop_.sizes[d]) return;
      move(d, -loop_.sizes[d]);
      index_[d] = 0;
    }
  }

 private:
  void move(size_t dimension, int64_t steps) {
    for (size_t n = 0; n < Operands; ++n) offsets_[n] += steps * loop_.strides[dimension][n];
  }

  const StridedLoop<Operands>& loop_;
  int rank_;
  std::array<int64_t, kMostLoopRank> index_{};
  Offsets<Operands> offsets_{};
};

// row(offsets, count) for each row of the loop, in parallel; long rows are cut into pieces.
template <int Operands, class Row>
void for_each_row(const StridedLoop<Operands>& loop, Row row) {
  const int64_t length = loop.row_length();
  const int64_t rows = loop.rows();
  if (length == 0 || rows == 0) return;
  const int64_t pieces = divide_up(length, kTaskElements);
  const int64_t rows_of_task = std::max<int64_t>(1, kTaskElements / length);
  parallel_for(divide_up(rows, rows_of_task) * pieces, [&](int64_t task, int) {
    const int64_t first = task / pieces * rows_of_task;
    const int64_t begin = task % pieces * kTaskElements;
    const int64_t count = std::min(kTaskElements, length - begin);
    StridedIndex<Operands> index(loop, std::max(loop.rank - 1, 0), first);
    for (int64_t r = first; r < std::min(first + rows_of_task, rows); ++r, index.next()) {
      Offsets<Operands> offsets = index.offsets();
      for (size_t n = 0; n < Operands; ++n) offsets[n] += begin * loop.row_stride(static_cast<int>(n));
      row(offsets, count);
    }
  });
}

}  // namespace heed
