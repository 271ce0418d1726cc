// Vectors of floats from and to memory that holds floats or bf16 (heed/core/bf16.h). Kernel sources only.
#pragma once

#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

HWY_INLINE Vector load_vector(const float* from) { return hn::LoadU(kFloats, from); }

// bf16 is the upper half of a float.
HWY_INLINE Vector load_vector(const uint16_t* from) {
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::Rebind<uint16_t, FloatTag> halves;
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from))));
}

HWY_INLINE void store_vector(Vector value, float* to) { hn::StoreU(value, kFloats, to); }

// Round to nearest, ties to even; NaN stays NaN. The same bits as to_bf16.
HWY_INLINE void store_vector(Vector value, uint16_t* to) {
  const hn::RebindToUnsigned<FloatTag> words;
  const hn::RebindToSigned<FloatTag> integers;
  const hn::Rebind<uint16_t, FloatTag> halves;
  const auto bits = hn::BitCast(words, value);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto half = hn::Add(hn::And(upper, hn::Set(words, 1)), hn::Set(words, 0x7fff));
  const auto rounded = hn::ShiftRight<16>(hn::Add(bits, half));
  const auto quiet = hn::Or(upper, hn::Set(words, 0x40));
  const auto is_nan = hn::RebindMask(words, hn::IsNaN(value));
  // At most 0xffff, so that the saturation of this conversion never acts.
  const auto result = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, result)), halves, to);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
