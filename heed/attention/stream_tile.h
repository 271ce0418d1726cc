// The inner loop of decode: a register tile whose columns stream from memory. Kernel sources only.
#pragma once

#include <cstddef>

#include "heed/attention/kv_pages.h"
#include "heed/core/memory.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Rows that share each load: 4 rows × 4 vectors keep both FMA units busy and need half a load per FMA.
inline constexpr int kStreamRows = 4;

// The most vectors of a tile: enough sums to cover the FMA latency, as long as they fit the registers and the tile is
// no wider than a panel (kv_pages.h).
template <int R, class Element>
inline constexpr int kStreamVectors = kManyRegisters                   ? 4
                                      : R == 1 && sizeof(Element) == 4 ? 32 / kLanes
                                      : R == 1                         ? 8
                                      : R == 2                         ? 4
                                                                       : 2;

static_assert(kStreamVectors<1, float> * kLanes <= 1 << kv_panel_bits(kTargetIsa, KvStorage::f32) &&
                  kStreamVectors<1, uint16_t> * kLanes <= 1 << kv_panel_bits(kTargetIsa, KvStorage::bf16),
              "no tile is wider than a panel");

// True if a tile reads its panel sequentially, at least two cache lines per step. With 16 registers most tiles of
// several rows do not: several tiles cover a panel, and the later ones read it from L1.
template <int R, class Element>
inline constexpr bool kReadsWholePanels = kStreamVectors<R, Element> >= 128 / kLanes / int{sizeof(Element)};

// True if weights are computed while the next keys, or the first values, are read. If rows share the loads, computing
// all weights at once would be a pause in which nothing is read. Narrow vectors leave no registers for it.
template <int R>
inline constexpr bool kWeighsWithin = R > 1 && kManyRegisters;

// How far ahead tiles that read whole panels prefetch, and whether every cache line or every second one. A
// compute-bound tile prefetches every line. The others leave most of it to the hardware prefetcher, which is best as
// long as addresses are sequential: every second line bridges the pauses at the ends of tiles, while every line would
// hinder the hardware (a core drops requests beyond a few dozen). A single row prefetches nothing. README.md has the
// measurements.
struct PrefetchDistance {
  int64_t bytes;
  int64_t to_odd_line;  // 64; 0: odd lines are not prefetched
};

template <int R, class Element>
inline constexpr PrefetchDistance kPrefetchDistance = R * 4 / int{sizeof(Element)} >= 6  // FMAs per cache line read
                                                          ? PrefetchDistance{16384, 64}
                                                          : PrefetchDistance{4096, 0};

template <int R, class Element>
inline constexpr bool kPrefetchesLines = R > 1 && kReadsWholePanels<R, Element>;

// Tiles that do not read whole panels prefetch the whole next block.
template <int R, class Element>
inline constexpr bool kPrefetchesBlock = R > 1 && !kReadsWholePanels<R, Element>;

// The cache lines of the block that is read next, prefetched one at a time from four places in turn. Prefetching in
// sequence keeps fewer requests in flight (Zen 3, 4 rows of 128: 92 to 102 % of a plain read instead of 73 to 82 %).
class LinesAhead {
 public:
  // Null: nothing is prefetched.
  LinesAhead(const std::byte* from, int64_t bytes)
      : at_(from),
        apart_(divide_up(bytes, kPlaces * kLine) * kLine),
        end_(from == nullptr ? from : from + kPlaces * apart_) {}

  bool any() const { return at_ != nullptr; }

  HWY_INLINE void prefetch() {
    __builtin_prefetch(at_, 0, 2);
    at_ += apart_;
    if (at_ >= end_) at_ -= kPlaces * apart_ - kLine;
  }

  // Sequential: a single instruction, for tiles that have no time for more.
  HWY_INLINE void prefetch_at(int64_t byte) const { __builtin_prefetch(at_ + byte, 0, 2); }
  void skip(int64_t bytes) { at_ += bytes; }

  static constexpr int64_t kLine = 64;

 private:
  static constexpr int64_t kPlaces = 4;
  const std::byte* at_;
  int64_t apart_;  // bytes between places
  const std::byte* end_;
};

// The data a tile reads: contiguous vectors, with a stride of `step` elements between steps.
template <class Element>
struct Stream {
  const Element* from;
  int64_t step;
};

// Two adjacent bf16 are a word, and widening either of them takes one instruction, whereas two vectors of bf16 in order
// take four. So a bf16 tile holds even elements in its even columns and odd elements in its odd columns.
template <class Element, int C>
inline constexpr bool kHoldsPairs = sizeof(Element) == 2 && C % 2 == 0;

template <int C, class Element>
HWY_INLINE void load_columns(const Element* from, Vector (&column)[C]) {
  if constexpr (kHoldsPairs<Element, C>) {
#pragma GCC unroll 8
    for (int c = 0; c < C; c += 2) {
      const auto* const words = reinterpret_cast<const uint32_t*>(from + c * kLanes);
      column[c] = load_lower(words);
      column[c + 1] = load_upper(words);
    }
  } else {
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) column[c] = load_vector(from + c * kLanes);
  }
}

// Stores a tile of accumulate_stream() with its elements in their original order.
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

// Prefetches as many bytes as a step reads (kBytes).
template <int R, int64_t kBytes, class Element>
HWY_INLINE void prefetch_lines(const Element* at, int64_t k, LinesAhead& block, bool asks) {
  if constexpr (kPrefetchesBlock<R, Element>) {
    if (!asks) return;
    if (kBytes < LinesAhead::kLine) return block.prefetch_at(k * kBytes);
#pragma GCC unroll 16
    for (int64_t byte = 0; byte < kBytes; byte += LinesAhead::kLine) block.prefetch();
  } else if constexpr (kPrefetchesLines<R, Element>) {
    constexpr PrefetchDistance kDistance = kPrefetchDistance<R, Element>;
    const std::byte* const ahead = reinterpret_cast<const std::byte*>(at) + kDistance.bytes;
#pragma GCC unroll 16
    for (int64_t byte = 0; byte < kBytes; byte += 2 * LinesAhead::kLine) {
      __builtin_prefetch(ahead + byte, 0, 2);
      if (kDistance.to_odd_line > 0) __builtin_prefetch(ahead + byte + kDistance.to_odd_line, 0, 2);
    }
  }
}

// tile[r][c] = fma(a[r · a_row + k], vector c of step k, tile[r][c]) for k = 0 … depth-1, in order. Advances the
// stream, prefetches, and calls each(k) once per step. `depth` may be an integral_constant.
template <int R, int C, class Element, class Depth, class Each>
HWY_INLINE void accumulate_stream(RegisterTile<R, C>& tile, const float* HWY_RESTRICT a, int64_t a_row,
                                  Stream<Element>& b, Depth depth, LinesAhead& ahead, Each each) {
  constexpr int64_t kBytes = C * kLanes * int64_t{sizeof(Element)};
  const auto [from, step] = b;
  const Element* at = from;
  LinesAhead lines(nullptr, 0);
  if constexpr (kPrefetchesBlock<R, Element>) lines = ahead;  // in registers
  const bool asks = lines.any();
  const int64_t end = depth;
#pragma GCC unroll 2
  for (int64_t k = 0; k < end; ++k, at += step) {
    prefetch_lines<R, kBytes>(at, k, lines, asks);
    Vector column[C];
    load_columns(at, column);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const Vector row = hn::Set(kFloats, a[r * a_row + k]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) tile.sum[r][c] = hn::MulAdd(row, column[c], tile.sum[r][c]);
    }
    each(k);
  }
  b.from = from + end * step;
  if constexpr (kPrefetchesBlock<R, Element>) {
    if (asks && kBytes < LinesAhead::kLine) lines.skip(end * kBytes);
    ahead = lines;
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
