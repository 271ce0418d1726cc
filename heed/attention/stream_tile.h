// The inner loop of decode: a register tile whose columns stream from memory. Kernel sources only.
#pragma once

#include "heed/attention/kv_cache.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Rows that share what is read: 4 rows × 4 vectors fill both multiply-add units and need half a load for each.
inline constexpr int kStreamRows = 4;

// Vectors of a row that are read side by side: enough chains for both units' latency, few enough for the registers.
template <int R>
inline constexpr int kStreamVectors = kManyRegisters ? (R <= 2 ? 8 : 4)
                                                     : (R == 1   ? 8
                                                        : R == 2 ? 4
                                                                 : 2);

// Are the lines ahead asked for? Not where one row reads f32 as it lies in memory: there the hardware looks ahead, and
// further than the requests of a core reach (Zen 3: 93 % of a plain read instead of 80 %).
template <int R, class Element>
inline constexpr bool kAsksAhead = kManyRegisters || R > 1 || sizeof(Element) < sizeof(float);

// Where vector `index` of a row begins.
HWY_INLINE int64_t panel_offset(int64_t index, int64_t panel_step) {
  constexpr int64_t kVectors = kKvPanel / kLanes;
  return index / kVectors * panel_step + index % kVectors * kLanes;
}

// tile[r][c] = fma(a[r · a_row + k], row k of b, tile[r][c]) for k = 0 … depth-1, in order. b lies in panels: a row has
// 16 elements in each, and panels are `panel_step` apart. Asks for as many bytes from `ahead` on as it reads, one line
// after the other; calls each(k) once a step.
template <int R, int C, class Element, class Each>
HWY_INLINE void accumulate_stream(RegisterTile<R, C>& tile, const float* HWY_RESTRICT a, int64_t a_row,
                                  const Element* HWY_RESTRICT b, int64_t panel_step, int64_t depth,
                                  const Element* HWY_RESTRICT ahead, Each each) {
  constexpr int kBytes = C * kLanes * static_cast<int>(sizeof(Element));
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k) {
    if (kAsksAhead<R, Element> && ahead != nullptr) {
#pragma GCC unroll 16
      for (int line = 0; line < kBytes; line += 64) {
        __builtin_prefetch(reinterpret_cast<const char*>(ahead) + k * kBytes + line, 0, 2);
      }
    }
    Vector column[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) column[c] = load_vector(b + panel_offset(c, panel_step) + k * kKvPanel);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vector row = hn::Set(kFloats, a[r * a_row + k]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) tile.sum[r][c] = hn::MulAdd(row, column[c], tile.sum[r][c]);
    }
    each(k);
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
