#include "heed/simd/target.h"
// The target comes first.
#include "heed/simd/register_tile.h"
#include "tests/simd/register_tile_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline constexpr int kMostRows = 16;

template <int R, int C>
HWY_NOINLINE void multiply(const test::TileProduct& p, int64_t first_row) {
  RegisterTile<R, C> tile;
  float* out = p.out + first_row * p.out_step;
  if (p.start == test::TileStart::load) {
    tile.load(out, p.out_step);
  } else {
    tile.set_zero();
  }
  const float* a = p.a + first_row * p.a_row;
  if (p.a_row == 1) {
    tile.accumulate(a, UnitStride{}, p.a_step, p.b, p.b_step, p.depth);
  } else {
    tile.accumulate(a, p.a_row, p.a_step, p.b, p.b_step, p.depth);
  }
  if (p.start == test::TileStart::add) {
    tile.add_to(out, p.out_step);
  } else {
    tile.store(out, p.out_step);
  }
}

template <int R, int C>
void one_tile(const test::TileProduct& product, int rows, int vectors) {
  if constexpr (R > kMostRows) {
    (void)rows;
    one_tile<1, C + 1>(product, rows, vectors);
  } else if constexpr (C <= kMostTileVectors) {
    if (rows == R && vectors == C) return multiply<R, C>(product, 0);
    one_tile<R + 1, C>(product, rows, vectors);
  }
}

template <int C>
void row_tiles(const test::TileProduct& product, int64_t rows, int vectors) {
  if constexpr (C <= kMostTileVectors) {
    if (vectors != C) return row_tiles<C + 1>(product, rows, vectors);
    for_each_row_tile<C>(rows, [&]<int R>(int64_t row) HWY_ATTR { multiply<R, C>(product, row); });
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed::test {

template <>
TileFacts tile_facts_kernel<kTargetIsa>() {
  return {HWY_NAMESPACE::kLanes, HWY_NAMESPACE::kMostTileVectors, HWY_TARGET != HWY_SSE4};
}

template <>
void tile_kernel<kTargetIsa>(const TileProduct& product, int rows, int vectors) {
  HWY_NAMESPACE::one_tile<1, 1>(product, rows, vectors);
}

template <>
void row_tiles_kernel<kTargetIsa>(const TileProduct& product, int64_t rows, int vectors) {
  HWY_NAMESPACE::row_tiles<1>(product, rows, vectors);
}

}  // namespace heed::test
