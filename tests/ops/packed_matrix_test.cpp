// PackedMatrix: a regular value, in panels without a wasteful tail.
#include "heed/ops/packed_matrix.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "heed/ops/matmul.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/matrix.h"

namespace heed::test {
namespace {

// The product with one row, by which a packed matrix can be told from another.
Matrix probe(const PackedMatrix& packed) {
  Matrix c(1, packed.columns());
  matmul(Matrix(1, packed.rows(), Layout::rows, 100).view(), packed, c.view());
  return c;
}

void expect_holds(const PackedMatrix& packed, const Matrix& matrix) {
  ASSERT_EQ(packed.rows(), matrix.view().size(0));
  ASSERT_EQ(packed.columns(), matrix.view().size(1));
  EXPECT_EQ(packed.isa(), isa());
  Matrix expected(1, packed.columns());
  matmul(Matrix(1, packed.rows(), Layout::rows, 100).view(), matrix.view(), expected.view());
  expect_same_bits(View<const float, 2>(probe(packed).view()), View<const float, 2>(expected.view()));
}

TEST(PackedMatrix, IsARegularValue) {
  on_every_isa([] {
    const Matrix first(30, 70, Layout::rows, 1);
    const Matrix second(20, 50, Layout::columns, 2);
    PackedMatrix a(first.view());
    const PackedMatrix copy = a;
    expect_holds(copy, first);
    a = PackedMatrix(second.view());
    expect_holds(a, second);
    expect_holds(copy, first);
    PackedMatrix moved = std::move(a);
    expect_holds(moved, second);
    moved = copy;
    expect_holds(moved, first);
    const PackedMatrix empty;
    EXPECT_EQ(empty.rows(), 0);
    EXPECT_EQ(empty.columns(), 0);
  });
}

TEST(PackedMatrix, PacksNewValuesIntoTheSameMemory) {
  on_every_isa([] {
    PackedMatrix packed(Matrix(30, 70, Layout::rows, 1).view());
    const Matrix next(30, 70, Layout::rows, 2);
    const int64_t before = allocation_count();
    packed.assign(next.view());
    EXPECT_EQ(allocation_count(), before);
    expect_holds(packed, next);
    const Matrix larger(300, 700, Layout::rows, 3);
    packed.assign(larger.view());
    expect_holds(packed, larger);
  });
}

TEST(PackedMatrix, StartsOnACacheLineAndOnAHugePageWhenLarge) {
  on_every_isa([] {
    const PackedMatrix small(Matrix(30, 70).view());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small.data()) % 64, 0U);
    const Matrix matrix(800, 700);
    const PackedMatrix large(matrix.view());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % (size_t{2} << 20), 0U);
    expect_holds(large, matrix);
    expect_holds(PackedMatrix(large), matrix);
  });
}

TEST(PanelLayout, CoversTheColumnsWithoutAThinLastPanel) {
  for (const Isa each : supported_isas()) {
    for (int64_t columns = 0; columns <= 400; ++columns) {
      const PanelLayout layout = panel_layout(each, columns);
      int64_t covered = 0;
      for (int64_t p = 0; p < layout.count(); ++p) {
        ASSERT_EQ(layout[p].column, covered);
        covered += layout[p].vectors * layout.lanes;
      }
      ASSERT_EQ(covered, layout.padded_columns());
      ASSERT_GE(covered, columns);
      ASSERT_LT(covered - columns, layout.lanes) << "a vector without a column";
      if (each == Isa::avx512 && columns > layout.lanes) {
        ASSERT_GE(layout[layout.count() - 1].vectors, 2);
      }
    }
  }
  // 96 columns on AVX-512: 48 + 48, not 64 + 32.
  const PanelLayout layout = panel_layout(Isa::avx512, 96);
  EXPECT_EQ(layout.count(), 2);
  EXPECT_EQ(layout[1].column, 48);
}

}  // namespace
}  // namespace heed::test
