// The inner loop of decode: a register tile whose columns stream from memory. Kernel sources only.
#pragma once

#include <cstddef>

#include "heed/core/memory.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Rows that share what is read: 4 rows × 4 vectors fill both multiply-add units and need half a load for each.
inline constexpr int kStreamRows = 4;

// The most vectors of a tile: panels of 16 or 64 (kv_cache.cpp), few enough sums for the registers.
template <int R>
inline constexpr int kStreamVectors = kLanes == 4 && R > 2 ? 2
                                      : kManyRegisters     ? 4
                                                           : 16 / kLanes;

// Are the lines ahead asked for? Not for one row, which the hardware looks ahead of (of a plain read, Zen 4 with
// AVX-512, 8 heads of 64: 93 to 99 % instead of 77 to 91 %, in bf16 100 % instead of 78 %). Rows that share what is
// read leave less room in the core's queues (4 rows of 128: 77 to 80 % instead of 49 to 65 %).
template <int R>
inline constexpr bool kAsksAhead = R > 1;

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

// What a tile reads: C vectors at each of its steps.
template <class Element>
struct Stream {
  const Element* from;
  int64_t step;         // from a step to the next
  int64_t vector_step;  // from a vector to the next: side by side in a panel, or, of f32, panels apart
};

// Two bf16 side by side are a word, which takes one instruction to widen to either of them, where two vectors of bf16
// in order take four. So a tile of bf16 holds even elements in its even columns and odd ones in its odd columns.
template <class Element, int C>
inline constexpr bool kHoldsPairs = sizeof(Element) == 2 && C % 2 == 0;

template <int C, class Element>
HWY_INLINE void load_columns(const Element* from, int64_t vector_step, Vector (&column)[C]) {
  if constexpr (kHoldsPairs<Element, C>) {
#pragma GCC unroll 8
    for (int c = 0; c < C; c += 2) {
      const auto* const words = reinterpret_cast<const uint32_t*>(from + c * kLanes);
      column[c] = load_lower(words);
      column[c + 1] = load_upper(words);
    }
  } else {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) column[c] = load_vector(from + c * vector_step);
  }
}

// Stores a tile of accumulate_stream() with its elements in order.
template <class Element, int R, int C>
HWY_INLINE void store_stream(const RegisterTile<R, C>& tile, float* to, int64_t row_step) {
  if constexpr (kHoldsPairs<Element, C>) {
    for (int r = 0; r < R; ++r) {
      for (int c = 0; c < C; c += 2) {
        hn::StoreInterleaved2(tile.sum[r][c], tile.sum[r][c + 1], kFloats, to + r * row_step + c * kLanes);
      }
    }
  } else {
    tile.store(to, row_step);
  }
}

// tile[r][c] = fma(a[r · a_row + k], vector c of step k, tile[r][c]) for k = 0 … depth-1, in order. Asks for as many
// lines of `ahead` as it reads; calls each(k) once a step.
template <int R, int C, class Element, class Each>
HWY_INLINE void accumulate_stream(RegisterTile<R, C>& tile, const float* HWY_RESTRICT a, int64_t a_row,
                                  const Stream<Element>& b, int64_t depth, LinesAhead& ahead, Each each) {
  constexpr int64_t kBytes = C * kLanes * int64_t{sizeof(Element)};
  constexpr bool kThin = kBytes < LinesAhead::kLine;
  const bool asks = kAsksAhead<R> && ahead.any();
  LinesAhead lines = ahead;  // in registers
  const auto [from, step, vector_step] = b;
#pragma GCC unroll 2
  for (int64_t k = 0; k < depth; ++k) {
    if (asks && kThin) lines.ask_at(k * kBytes);
    if (asks && !kThin) {
#pragma GCC unroll 16
      for (int64_t byte = 0; byte < kBytes; byte += LinesAhead::kLine) lines.ask();
    }
    Vector column[C];
    load_columns(from + k * step, vector_step, column);
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
