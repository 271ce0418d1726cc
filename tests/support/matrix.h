// A matrix in any layout inside memory with guards around every element, for tests of ops on strided views.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/core/rng.h"
#include "heed/core/view.h"

namespace heed::test {

enum class Layout {
  rows,         // contiguous rows
  columns,      // contiguous columns: the transposed matrix
  padded_rows,  // rows with a gap between them
  strided,      // gaps in both directions
  reversed,     // rows run backwards
};
inline constexpr Layout kLayouts[] = {Layout::rows, Layout::columns, Layout::padded_rows, Layout::strided,
                                      Layout::reversed};

inline std::string layout_name(Layout layout) {
  static const char* const names[] = {"rows", "columns", "padded rows", "strided", "reversed"};
  return names[static_cast<size_t>(layout)];
}

// [rows, columns], normal values by default; starts at an address that no vector is aligned to.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns, Layout layout = Layout::rows, uint64_t seed = 1) : shape_{rows, columns} {
    switch (layout) {
      case Layout::rows:
        strides_ = {columns, 1};
        break;
      case Layout::columns:
        strides_ = {1, rows};
        break;
      case Layout::padded_rows:
        strides_ = {columns + 5, 1};
        break;
      case Layout::strided:
        strides_ = {3 * columns + 2, 3};
        break;
      case Layout::reversed:
        strides_ = {-columns, 1};
        first_ = rows > 0 ? (rows - 1) * columns : 0;
        break;
    }
    first_ += kMargin;
    memory_.assign(static_cast<size_t>(2 * kMargin + (rows + 1) * (3 * columns + 5)), kGuard);
    const Rng rng(seed);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) view()(i, j) = rng.normal(static_cast<uint64_t>(i * columns + j));
    }
    before_ = memory_;
  }

  View<float, 2> view() { return {memory_.data() + first_, shape_, strides_}; }
  View<const float, 2> view() const { return {memory_.data() + first_, shape_, strides_}; }

  // Nothing but the elements has changed since construction.
  void expect_guards() const {
    std::vector<float> expected = before_;
    const View<float, 2> elements(expected.data() + first_, shape_, strides_);
    for (int64_t i = 0; i < shape_[0]; ++i) {
      for (int64_t j = 0; j < shape_[1]; ++j) elements(i, j) = view()(i, j);
    }
    for (size_t i = 0; i < memory_.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(memory_[i]), std::bit_cast<uint32_t>(expected[i]))
          << "memory outside of the view was written, at offset " << static_cast<int64_t>(i) - first_;
    }
  }

 private:
  static constexpr int64_t kMargin = 67;
  static constexpr float kGuard = -54321.0F;

  Shape<2> shape_;
  Shape<2> strides_{};
  int64_t first_ = 0;
  std::vector<float> memory_;
  std::vector<float> before_;
};

// Equal to the last bit, NaN included.
template <int N>
void expect_same_bits(View<const float, N> got, View<const float, N> expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (int64_t i = 0; i < got.size(0); ++i) {
    if constexpr (N > 1) {
      expect_same_bits<N - 1>(got[i], expected[i]);
      if (::testing::Test::HasFatalFailure()) return;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got(i)), std::bit_cast<uint32_t>(expected(i)))
          << "element " << i << ": got " << got(i) << ", expected " << expected(i);
    }
  }
}

}  // namespace heed::test
