// Loops over a row of floats, vector by vector. The last elements, fewer than a vector, go through a vector too: the
// same arithmetic, so the same bits. Kernel sources only (heed/simd/target.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// All lanes of a vector.
struct AllLanes {
  static HWY_INLINE Vector load(const float* from) { return hn::LoadU(kFloats, from); }
  static HWY_INLINE void store(Vector v, float* to) { hn::StoreU(v, kFloats, to); }
  static HWY_INLINE Vector keep(Vector v) { return v; }
};

// The first `count` lanes; the others load as 0 and are not stored.
struct FirstLanes {
  int64_t count;

  HWY_INLINE Vector load(const float* from) const {
    HWY_ALIGN float lanes[kLanes] = {};
    std::copy_n(from, count, lanes);
    return hn::Load(kFloats, lanes);
  }
  HWY_INLINE void store(Vector v, float* to) const {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(v, kFloats, lanes);
    std::copy_n(lanes, count, to);
  }
  // 0 in the other lanes.
  HWY_INLINE Vector keep(Vector v) const {
    return hn::IfThenElseZero(hn::FirstN(kFloats, static_cast<size_t>(count)), v);
  }
};

// f(i, lanes) for each vector of a row of `count` floats: i is its first element, lanes.load and lanes.store access it.
template <class F>
HWY_INLINE void for_each_vector(int64_t count, F f) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, AllLanes{});
  if (i < count) f(i, FirstLanes{count - i});
}

// kSums sums over a row: f(i, lanes, sums) adds the terms of a vector to sums[0 … kSums-1]. Vector v is added to chain
// v % 4, a last part of a vector to chain 3; then (chain 0 + chain 1) + (chain 2 + chain 3), and the lanes of that.
// totals[k] holds the sum in every lane.
template <int kSums, class F>
HWY_INLINE void sum_row(int64_t count, Vector (&totals)[kSums], F f) {
  Vector chains[4][kSums];
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 4
    for (int k = 0; k < kSums; ++k) chains[c][k] = hn::Zero(kFloats);
  }
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) f(i + c * kLanes, AllLanes{}, chains[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 3; ++c) {
    if (i + kLanes > count) break;
    f(i, AllLanes{}, chains[c]);
    i += kLanes;
  }
  if (i < count) f(i, FirstLanes{count - i}, chains[3]);
#pragma GCC unroll 4
  for (int k = 0; k < kSums; ++k) {
    totals[k] =
        hn::SumOfLanes(kFloats, hn::Add(hn::Add(chains[0][k], chains[1][k]), hn::Add(chains[2][k], chains[3][k])));
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
