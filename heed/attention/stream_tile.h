// The inner loop of decode: a register tile whose columns stream from memory. Kernel sources only.
#pragma once

#include <cstddef>

#include "heed/attention/kv_cache.h"
#include "heed/core/memory.h"
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

// The lines of a block that is read next, asked for one at a time and from four places in turn: one place after the
// other keeps fewer requests in flight (Zen 3, 4 rows of 128: 92 to 102 % of a plain read instead of 73 to 82 %).
class LinesAhead {
 public:
  // Null: nothing is asked for.
  LinesAhead(const std::byte* from, int64_t bytes)
      : at_(from),
        apart_(divide_up(bytes, kPlaces * kLine) * kLine),
        end_(from == nullptr ? from : from + kPlaces * apart_) {}

  bool any() const { return at_ != nullptr; }

  HWY_INLINE void ask() {
    __builtin_prefetch(at_, 0, 2);
    at_ += apart_;
    if (at_ >= end_) at_ -= kPlaces * apart_ - kLine;
  }

  // In the order of memory: one instruction, where a tile has no time for more.
  HWY_INLINE void ask_at(int64_t byte) const { __builtin_prefetch(at_ + byte, 0, 2); }
  void skip(int64_t bytes) { at_ += bytes; }

  static constexpr int64_t kLine = 64;

 private:
  static constexpr int64_t kPlaces = 4;
  const std::byte* at_;
  int64_t apart_;  // bytes from a place to the next
  const std::byte* end_;
};

// Where vector `index` of a row begins.
HWY_INLINE int64_t panel_offset(int64_t index, int64_t panel_step) {
  constexpr int64_t kVectors = kKvPanel / kLanes;
  return index / kVectors * panel_step + index % kVectors * kLanes;
}

// tile[r][c] = fma(a[r · a_row + k], row k of b, tile[r][c]) for k = 0 … depth-1, in order. b lies in panels: a row has
// 16 elements in each, and panels are `panel_step` apart. Asks for as many lines of `ahead` as it reads; calls each(k)
// once a step.
template <int R, int C, class Element, class Each>
HWY_INLINE void accumulate_stream(RegisterTile<R, C>& tile, const float* HWY_RESTRICT a, int64_t a_row,
                                  const Element* HWY_RESTRICT b, int64_t panel_step, int64_t depth, LinesAhead& ahead,
                                  Each each) {
  constexpr int64_t kBytes = C * kLanes * int64_t{sizeof(Element)};
  constexpr bool kThin = kBytes < LinesAhead::kLine;
  const bool asks = kAsksAhead<R, Element> && ahead.any();
  LinesAhead lines = ahead;  // in registers
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k) {
    if (asks && kThin) lines.ask_at(k * kBytes);
    if (asks && !kThin) {
#pragma GCC unroll 16
      for (int64_t byte = 0; byte < kBytes; byte += LinesAhead::kLine) lines.ask();
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
  if (asks && kThin) lines.skip(depth * kBytes);
  ahead = lines;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
