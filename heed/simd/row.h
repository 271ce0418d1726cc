// A loop over a row, vector by vector; the last elements go through a vector too, so that an element's bits do not
// depend on its position. Kernel sources only (heed/simd/target.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Loads and stores all lanes.
struct WholeVector {
  HWY_INLINE Vector load(const float* from, float /*rest*/ = 0.0F) const { return hn::LoadU(kFloats, from); }
  HWY_INLINE void store(Vector value, float* to) const { hn::StoreU(value, kFloats, to); }
  HWY_INLINE Vector keep(Vector value) const { return value; }
};

// Loads and stores the first `count` lanes and touches no memory past them; the other lanes are loaded as `rest`.
struct PartOfVector {
  int64_t count;

  HWY_INLINE Vector load(const float* from, float rest = 0.0F) const {
#if HWY_TARGET <= HWY_AVX2
    const auto first = hn::FirstN(kFloats, static_cast<size_t>(count));
    return hn::IfThenElse(first, hn::MaskedLoad(first, kFloats, from), hn::Set(kFloats, rest));
#else
    HWY_ALIGN float lanes[kLanes];
    std::fill_n(lanes, kLanes, rest);
    std::copy_n(from, count, lanes);
    return hn::Load(kFloats, lanes);
#endif
  }
  HWY_INLINE void store(Vector value, float* to) const {
#if HWY_TARGET <= HWY_AVX2
    hn::BlendedStore(value, hn::FirstN(kFloats, static_cast<size_t>(count)), kFloats, to);
#else
    HWY_ALIGN float lanes[kLanes];
    hn::Store(value, kFloats, lanes);
    std::copy_n(lanes, count, to);
#endif
  }
  // 0 in the other lanes.
  HWY_INLINE Vector keep(Vector value) const {
    return hn::IfThenElseZero(hn::FirstN(kFloats, static_cast<size_t>(count)), value);
  }
};

// step(part, i) for i = 0, kLanes, 2 kLanes … below `count`, where `part` is WholeVector or, at the end, PartOfVector.
template <class Step>
HWY_INLINE void for_each_vector(int64_t count, Step step) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) step(WholeVector{}, i);
  if (i < count) step(PartOfVector{count - i}, i);
}

// kSums sums over a row: f(part, i, sums) adds the terms of a vector to sums[0 … kSums-1]. Vector v is added to chain
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
    for (int c = 0; c < 4; ++c) f(WholeVector{}, i + c * kLanes, chains[c]);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 3; ++c) {
    if (i + kLanes > count) break;
    f(WholeVector{}, i, chains[c]);
    i += kLanes;
  }
  if (i < count) f(PartOfVector{count - i}, i, chains[3]);
#pragma GCC unroll 4
  for (int k = 0; k < kSums; ++k) {
    totals[k] =
        hn::SumOfLanes(kFloats, hn::Add(hn::Add(chains[0][k], chains[1][k]), hn::Add(chains[2][k], chains[3][k])));
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
