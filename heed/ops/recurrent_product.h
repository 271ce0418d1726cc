// The product of a recurrent step: a few rows of states, in L1, times packed weights. Kernel sources only.
#pragma once

#include <array>
#include <utility>

#include "heed/core/memory.h"
#include "heed/ops/recurrent_kernel.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Panels of two vectors: tall tiles, which read each weight for more rows than wide ones do.
inline constexpr int kStripRows = kTileRows<2>;
static_assert(kTileRows<1> >= kStripRows, "a last panel of one vector takes the same strips");

// Rows of floats.
template <class T>
struct RowsAt {
  T* data;
  int64_t stride;
};

template <int R, int C>
void multiply_tile(const RowsAt<const float>& a, const float* panel, int64_t depth, const RowsAt<float>& to) {
  RegisterTile<R, C> tile;
  tile.set_zero();
  tile.accumulate(a.data, a.stride, 1, panel, C * kLanes, depth);
  tile.store(to.data, to.stride);
}

using TileProduct = void (*)(const RowsAt<const float>& a, const float* panel, int64_t depth, const RowsAt<float>& to);

// Tiles of 1 … kStripRows rows.
template <int C, int... R>
constexpr std::array<TileProduct, sizeof...(R)> tile_products(std::integer_sequence<int, R...>) {
  return {multiply_tile<R + 1, C>...};
}
template <int C>
inline constexpr auto kTileProducts = tile_products<C>(std::make_integer_sequence<int, kStripRows>());

// to [rows, columns] = a [rows, depth] times the weight. Rows of `to` have room for whole panels.
inline void multiply_rows(const RowsAt<const float>& a, int64_t rows, const RecurrentWeight& weight,
                          const RowsAt<float>& to) {
  const int64_t strips = divide_up<int64_t>(rows, kStripRows);
  for (int64_t p = 0; p < weight.panels.count(); ++p) {
    const Panel panel = weight.panels[p];
    const auto& products = panel.vectors == 2 ? kTileProducts<2> : kTileProducts<1>;
    const float* const data = weight.data + weight.depth * panel.column;
    int64_t row = 0;
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t height = (rows - row) / (strips - strip);
      products[static_cast<size_t>(height - 1)]({a.data + row * a.stride, a.stride}, data, weight.depth,
                                                {to.data + row * to.stride + panel.column, to.stride});
      row += height;
    }
  }
}

// How many of the items, in the order of falling length, have a step `step`; at most `active`.
inline int64_t active_at(std::span<const RecurrentItem> items, int64_t step, int64_t active) {
  while (active > 0 && items[static_cast<size_t>(active - 1)].steps <= step) --active;
  return active;
}

// The token of a step.
inline int64_t token_of(const RecurrentPass& pass, const RecurrentItem& item, int64_t step) {
  return pass.reverse ? item.steps - 1 - step : step;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
