// Loads and stores of float vectors, with memory in f32 or bf16 (heed/core/bf16.h). Kernel sources only.
#pragma once

#include <cstdint>

#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

using WordTag = hn::RebindToUnsigned<FloatTag>;
using WordVector = hn::Vec<WordTag>;
inline constexpr WordTag kWords{};

HWY_INLINE Vector load_vector(const float* from) { return hn::LoadU(kFloats, from); }

// bf16 is the upper half of a float.
HWY_INLINE Vector load_vector(const uint16_t* from) {
  const hn::Rebind<uint16_t, FloatTag> halves;
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::PromoteTo(kWords, hn::LoadU(halves, from))));
}

HWY_INLINE void store_vector(Vector value, float* to) { hn::StoreU(value, kFloats, to); }

// bf16 in the upper halves of the words, zeros below. Round to nearest, ties to even; NaN stays NaN. The same bits as
// to_bf16.
HWY_INLINE WordVector round_to_bf16(Vector value) {
  const auto bits = hn::BitCast(kWords, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(kWords, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(kWords, 0x7fff)));
  const auto quiet = hn::Or(bits, hn::Set(kWords, 0x400000));
  const auto is_nan = hn::RebindMask(kWords, hn::IsNaN(value));
  return hn::And(hn::IfThenElse(is_nan, quiet, rounded), hn::Set(kWords, 0xffff0000U));
}

HWY_INLINE void store_vector(Vector value, uint16_t* to) {
  const hn::RebindToSigned<FloatTag> integers;
  const hn::Rebind<uint16_t, FloatTag> halves;
  // At most 0xffff, so this conversion never saturates.
  const auto result = hn::ShiftRight<16>(round_to_bf16(value));
  hn::StoreU(hn::DemoteTo(halves, hn::BitCast(integers, result)), halves, to);
}

// Pairs of bf16 in words: `lower` in the lower halves, `upper` in the upper. Widening either half of a word takes one
// instruction; contiguous bf16 values take two.
HWY_INLINE void store_pairs(Vector lower, Vector upper, uint32_t* to) {
  hn::StoreU(hn::Or(hn::ShiftRight<16>(round_to_bf16(lower)), round_to_bf16(upper)), kWords, to);
}

HWY_INLINE Vector load_lower(const uint32_t* from) {
  return hn::BitCast(kFloats, hn::ShiftLeft<16>(hn::LoadU(kWords, from)));
}

HWY_INLINE Vector load_upper(const uint32_t* from) {
  return hn::BitCast(kFloats, hn::And(hn::LoadU(kWords, from), hn::Set(kWords, 0xffff0000U)));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
