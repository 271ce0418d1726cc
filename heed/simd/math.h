// Vector maths: Vector in, Vector out. Kernel sources only (heed/simd/target.h).
//
// NaN in, NaN out; ±∞ and the whole range are right. Nothing returns denormals: what would be below 2^-126 is 0. There
// is only the vector form: loops pad or mask their tail, so an element's bits do not depend on where it stands.
// Errors are in ulp of the result, measured over all floats (tests/simd/math_test.cpp).
#pragma once

#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// min(max(x, low), high), and NaN stays NaN. On x86, max and min return their second operand when one is NaN; other
// targets may return the number, and select.
HWY_INLINE Vector clamp(Vector x, float low, float high) {
  const Vector least = hn::Set(kFloats, low);
  const Vector most = hn::Set(kFloats, high);
#if HWY_ARCH_X86
  return hn::Min(most, hn::Max(least, x));
#else
  const Vector above = hn::IfThenElse(hn::Lt(x, least), least, x);
  return hn::IfThenElse(hn::Gt(above, most), most, above);
#endif
}

// c[0] + c[1] x + c[2] x² + …, from the highest power down.
template <int N>
HWY_INLINE Vector polynomial(Vector x, const float (&c)[N]) {
  Vector sum = hn::Set(kFloats, c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, hn::Set(kFloats, c[i]));
  return sum;
}

// 2^x, within 3 ulp; exactly 1 at 0. Results below 2^-126 (AVX-512) or 2^-125.5 (elsewhere) are 0: attention's weights
// hold no denormals, which would slow down the products that follow. The polynomials are minimax with c0 = 1.
HWY_INLINE Vector exp2(Vector x) {
#if HWY_TARGET <= HWY_AVX3
  // f = x - floor(x) in [0, 1]; scalef multiplies by 2^floor(x), overflows to ∞, and knows ±∞ and NaN.
  constexpr float kPowers[] = {1.0F, 0.693151772F, 0.240159094F, 0.0558169968F, 0.00899603125F, 0.00187596586F};
  const Vector f{_mm512_reduce_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  const __mmask16 kept = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0F), _CMP_NLT_UQ);  // NaN is kept
  return Vector{_mm512_maskz_scalef_ps(kept, polynomial(f, kPowers).raw, x.raw)};
#else
  // n = x rounded, f = x - n in [-½, ½], result 2·2^f · 2^(n-1). The factor 2 is in the coefficients: so n = 128 is in
  // range (f < 0 finite, f = 0 infinite), and n = -126 gives the bits of 0. Adding 3·2^22 + 126 rounds and leaves the
  // exponent of 2^(n-1) in the low bits.
  constexpr float kPowers[] = {2.0F,           2 * 0.693147004F,   2 * 0.240222335F,
                               2 * 0.0555066317F, 2 * 0.00967247598F, 2 * 0.00133035029F};
  const Vector magic = hn::Set(kFloats, 12582912.0F + 126.0F);
  const Vector t = clamp(x, -126.0F, 128.0F);
  const Vector shifted = hn::Add(t, magic);
  const Vector f = hn::Sub(t, hn::Sub(shifted, magic));
  const hn::RebindToUnsigned<FloatTag> bits;
  const Vector scale = hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
  return hn::Mul(polynomial(f, kPowers), scale);
#endif
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
