// Dropout masks, vector by vector. Kernel sources only.
#pragma once

#include "heed/ops/dropout_bits.h"
#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

using DropoutTag = hn::RebindToUnsigned<FloatTag>;
using DropoutVector = hn::Vec<DropoutTag>;
inline constexpr DropoutTag kDropoutWords{};

// dropout_bits() in lanes: the two words of each lane's row, and its element times kDropoutElementStep. 1 for an
// element that is kept, 0 for one that is dropped.
HWY_INLINE Vector kept(DropoutVector first, DropoutVector second, DropoutVector element_step, int32_t threshold) {
  const hn::RebindToSigned<FloatTag> numbers;
  DropoutVector x = hn::Add(first, element_step);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(kDropoutWords, kDropoutFirstRound));
  x = hn::Xor(x, second);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<13>(x)), hn::Set(kDropoutWords, kDropoutSecondRound));
  x = hn::ShiftRight<8>(hn::Xor(x, hn::ShiftRight<16>(x)));
  const auto dropped = hn::Lt(hn::BitCast(numbers, x), hn::Set(numbers, threshold));
  return hn::IfThenZeroElse(hn::RebindMask(kFloats, dropped), hn::Set(kFloats, 1.0F));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
