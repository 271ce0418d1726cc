// Packing rows into lanes and back, for every number of rows, with odd widths and strides.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "heed/simd/dispatch.h"
#include "tests/simd/transpose_kernel.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr float kGuard = -12345.0F;
constexpr int64_t kMargin = 64;  // guarded floats before and after an output
constexpr int64_t kColumns[] = {0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 33};

int64_t lanes() {
  return dispatch([]<Isa isa>() { return lanes_kernel<isa>(); });
}

// Values that name their place: 1, 2, 3, …
std::vector<float> numbered(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
  return values;
}

// An output whose every float is the guard.
class Guarded {
 public:
  explicit Guarded(int64_t count) : values_(static_cast<size_t>(count + 2 * kMargin), kGuard), seen_(values_.size()) {}

  float* data() { return values_.data() + kMargin; }

  void expect(int64_t at, float value) {
    const size_t index = static_cast<size_t>(at + kMargin);
    EXPECT_EQ(values_[index], value) << "at " << at;
    seen_[index] = true;
  }

  // What was not expected was not written.
  void expect_rest_untouched() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (seen_[i]) continue;
      ASSERT_EQ(values_[i], kGuard) << "written at " << static_cast<int64_t>(i) - kMargin;
    }
  }

 private:
  std::vector<float> values_;
  std::vector<bool> seen_;
};

void check_rows_to_lanes(int64_t rows, int64_t columns, int64_t from_step, int64_t to_step) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, " << columns << " columns, steps " << from_step << ", "
                                    << to_step);
  // Exactly the floats that may be read, so that a sanitizer sees any other.
  const std::vector<float> from = numbered((rows - 1) * from_step + columns);
  Guarded to(columns * to_step);
  dispatch([&]<Isa isa>() {
    rows_to_lanes_kernel<isa>({from.data(), from_step, rows, columns, 0.5F, to.data(), to_step});
  });
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < lanes(); ++row) {
      const float value = row < rows ? 0.5F * from[static_cast<size_t>(row * from_step + column)] : 0.0F;
      to.expect(column * to_step + row, value);
    }
  }
  to.expect_rest_untouched();
}

void check_lanes_to_rows(int64_t rows, int64_t columns, int64_t from_step, int64_t to_step) {
  SCOPED_TRACE(::testing::Message() << rows << " rows, " << columns << " columns, steps " << from_step << ", "
                                    << to_step);
  const std::vector<float> from = numbered(columns * from_step);
  std::vector<float> factor;
  for (int64_t row = 0; row < lanes(); ++row) factor.push_back(row % 2 == 0 ? 2.0F : 0.25F);
  Guarded to((rows - 1) * to_step + columns);
  dispatch([&]<Isa isa>() {
    lanes_to_rows_kernel<isa>({from.data(), from_step, factor.data(), rows, columns, to.data(), to_step});
  });
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const float value = factor[static_cast<size_t>(row)] * from[static_cast<size_t>(column * from_step + row)];
      to.expect(row * to_step + column, value);
    }
  }
  to.expect_rest_untouched();
}

TEST(Transpose, RowsToLanesFillsMissingRowsWithZeroAndWritesNothingElse) {
  on_every_isa([] {
    for (int64_t rows = 1; rows <= lanes(); ++rows) {
      for (const int64_t columns : kColumns) {
        check_rows_to_lanes(rows, columns, columns, lanes());
        check_rows_to_lanes(rows, columns, columns + 3, 3 * lanes() + 1);
      }
    }
  });
}

TEST(Transpose, LanesToRowsWritesOnlyTheRowsAndColumnsAskedFor) {
  on_every_isa([] {
    for (int64_t rows = 1; rows <= lanes(); ++rows) {
      for (const int64_t columns : kColumns) {
        check_lanes_to_rows(rows, columns, lanes(), columns);
        check_lanes_to_rows(rows, columns, 3 * lanes() + 1, columns + 3);
      }
    }
  });
}

}  // namespace
}  // namespace heed::test
