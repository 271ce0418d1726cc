// Maxima lane by lane, with the place of each. Kernel sources only (heed/simd/target.h).
#pragma once

#include <cstdint>

#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

using IntTag = hn::RebindToSigned<FloatTag>;
inline constexpr IntTag kInts{};

// Places have 32 bits: there are at most kMostLength.
struct Maxima {
  Vector value;
  hn::Vec<IntTag> place;

  // Takes x where it is larger, or the first NaN. A maximum that is NaN stays.
  HWY_INLINE void include(Vector x, hn::Vec<IntTag> at) {
    const auto taken = hn::AndNot(hn::IsNaN(value), hn::Not(hn::Le(x, value)));
    value = hn::IfThenElse(taken, x, value);
    place = hn::IfThenElse(hn::RebindMask(kInts, taken), at, place);
  }
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
