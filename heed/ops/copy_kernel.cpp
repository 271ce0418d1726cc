#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/copy_kernel.h"
#include "heed/simd/row.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void add_row(int64_t count, const float* from, float* to) {
  for_each_vector(count, [=](auto part, int64_t i)
                             HWY_ATTR { part.store(hn::Add(part.load(to + i), part.load(from + i)), to + i); });
}

// Strips of kLanes columns of `to`, packed in a buffer: its rows are vectors.
void transpose(const TransposedTile& tile) {
  HWY_ALIGN float packed[kTransposedTile * kLanes];
  for (int64_t column = 0; column < tile.columns; column += kLanes) {
    const int64_t width = std::min<int64_t>(kLanes, tile.columns - column);
    const float* const from = tile.from + column * tile.from_step;
    float* const to = tile.to + column;
    if (width == kLanes && !tile.add) {
      rows_to_lanes(from, tile.from_step, kLanes, tile.rows, 1.0F, to, tile.to_step);
      continue;
    }
    rows_to_lanes(from, tile.from_step, width, tile.rows, 1.0F, packed, kLanes);
    for (int64_t row = 0; row < tile.rows; ++row) {
      if (tile.add) {
        add_row(width, packed + row * kLanes, to + row * tile.to_step);
      } else {
        std::copy_n(packed + row * kLanes, width, to + row * tile.to_step);
      }
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void transpose_kernel<kTargetIsa>(const TransposedTile& tile) {
  HWY_NAMESPACE::transpose(tile);
}

template <>
void add_row_kernel<kTargetIsa>(int64_t count, const float* from, float* to) {
  HWY_NAMESPACE::add_row(count, from, to);
}

}  // namespace heed
