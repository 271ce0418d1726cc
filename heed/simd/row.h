// A loop over a row, vector by vector; the last elements go through a vector too, so that an element's bits do not
// depend on its position. Kernel sources only (heed/simd/target.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/simd/register_tile.h"

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

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
