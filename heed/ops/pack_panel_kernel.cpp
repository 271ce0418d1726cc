#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/matmul_kernel.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// b's rows are contiguous: copy them.
void copy_rows(const float* from, int64_t from_step, int64_t depth, int64_t columns, int64_t width, float* to) {
  if (columns == width) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t j = 0; j < width; j += kLanes) {
        hn::Store(hn::LoadU(kFloats, from + k * from_step + j), kFloats, to + k * width + j);
      }
    }
    return;
  }
  for (int64_t k = 0; k < depth; ++k) {
    float* row = to + k * width;
    std::copy_n(from + k * from_step, columns, row);
    std::fill(row + columns, row + width, 0.0F);
  }
}

// b's columns are contiguous: transpose them, a vector of columns at a time.
void transpose_columns(const float* from, int64_t from_step, int64_t depth, int64_t columns, int64_t width, float* to) {
  for (int64_t j = 0; j < width; j += kLanes) {
    const int64_t valid = std::clamp<int64_t>(columns - j, 0, kLanes);
    rows_to_lanes(from + j * from_step, from_step, valid, depth, 1.0F, to + j, width);
  }
}

void gather(View<const float, 2> from, int64_t width, float* to) {
  for (int64_t k = 0; k < from.size(0); ++k) {
    float* row = to + k * width;
    for (int64_t j = 0; j < from.size(1); ++j) row[j] = from(k, j);
    std::fill(row + from.size(1), row + width, 0.0F);
  }
}

void pack_panel(const PanelSource& source, const PanelLayout& panels, int64_t index, float* to) {
  const Panel panel = panels[index];
  const int64_t width = panel.vectors * panels.lanes;
  const int64_t columns = std::min(width, panels.columns - panel.column);
  const View<const float, 2> part = source.b.slice(0, source.k, source.depth).slice(1, panel.column, columns);
  if (part.stride(1) == 1) {
    copy_rows(part.data(), part.stride(0), source.depth, columns, width, to);
  } else if (part.stride(0) == 1) {
    transpose_columns(part.data(), part.stride(1), source.depth, columns, width, to);
  } else {
    gather(part, width, to);
  }
}

// A few rows at a time: packed as floats, then rounded in pairs.
void pack_bf16_panel(View<const float, 2> b, const PanelLayout& panels, int64_t index, uint32_t* to) {
  constexpr int64_t kRows = 16;
  alignas(kAlignment) float rows[kRows * kMostTileVectors * kLanes];
  const int64_t width = panels[index].vectors * kLanes;
  for (int64_t k = 0; k < b.size(0); k += kRows) {
    const int64_t depth = std::min(kRows, b.size(0) - k);
    pack_panel({b, k, depth}, panels, index, rows);
    if (depth % 2 != 0) std::fill_n(rows + depth * width, width, 0.0F);
    for (int64_t i = 0; i < depth; i += 2) {
      const float* pair = rows + i * width;
      for (int64_t j = 0; j < width; j += kLanes, to += kLanes) {
        store_pairs(hn::Load(kFloats, pair + j), hn::Load(kFloats, pair + width + j), to);
      }
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void pack_panel_kernel<kTargetIsa>(const PanelSource& source, const PanelLayout& panels, int64_t panel, float* to) {
  HWY_NAMESPACE::pack_panel(source, panels, panel, to);
}

template <>
void pack_bf16_panel_kernel<kTargetIsa>(View<const float, 2> b, const PanelLayout& panels, int64_t panel,
                                        uint32_t* to) {
  HWY_NAMESPACE::pack_bf16_panel(b, panels, panel, to);
}

}  // namespace heed
