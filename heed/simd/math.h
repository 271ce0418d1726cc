// Vector maths: Vector in, Vector out. Kernel sources only (heed/simd/target.h).
//
// NaN in, NaN out; ±∞ and the whole range are handled. No function returns denormals, except tanh and erf of denormals:
// exponentials below 2^-126 are 0. There is only the vector form: loops pad or mask their tail, so an element's bits do
// not depend on its position. Coefficients are minimax, rounded one after another. Largest error over all floats, in
// ulp of the result (tests/simd/math_test.cpp):
//              exp256   exp   log  tanh   erf  sigmoid  sigmoid_base256
//     AVX-512    1.90  1.02  0.81  1.34  1.12     2.41             4.80
//     AVX2       1.96  1.02  0.81  1.34  1.12     2.41             3.43
//     baseline   2.23  1.00  0.82  1.34  1.30     2.41             3.49
#pragma once

#include "heed/simd/base256.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// min(max(x, low), high), and NaN stays NaN. On x86, max and min return their second operand if one is NaN. Other
// targets may return the number, so they use selects.
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

// Adding 3·2^22 + 126 to a float in [-126, 128] rounds it to an integer n, with the exponent of 2^(n-1) in the low
// bits.
inline constexpr float kRoundToExponent = 12582912.0F + 126.0F;

// 2^(n-1), and 0 for n = -126, from shifted = n + kRoundToExponent. The caller's other factor is twice as large, which
// brings n = 128 into range, where 2·2^127 is ∞ and less is finite. Unspecified for NaN.
HWY_INLINE Vector half_power(Vector shifted) {
  const hn::RebindToUnsigned<FloatTag> bits;
  return hn::BitCast(kFloats, hn::ShiftLeft<23>(hn::BitCast(bits, shifted)));
}

// 256^x = 2^(8x), exactly 1 at 0; for attention's weights, where denormals would slow down the products that follow:
// results below 2^-126 (AVX-512) or 2^-125.5 (elsewhere) are 0. The polynomials are those of 2^(8f): the power of 8 in
// each coefficient is exact.
HWY_INLINE Vector exp256(Vector x) {
#if HWY_TARGET <= HWY_AVX3
  // f = x - floor(8x)/8 in [0, 1/8), rounded down; scalef multiplies by 2^floor(8x), overflows to ∞, and handles ±∞ and
  // NaN.
  constexpr float kPowers[] = {
      1.0F, 8 * 0.693153858F, 64 * 0.240139544F, 512 * 0.0558749698F, 4096 * 0.00892804004F, 32768 * 0.00190354791F};
  constexpr int kThreeBits = 3 << 4;
  const Vector f{_mm512_reduce_ps(x.raw, kThreeBits | _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  const __mmask16 kept = _mm512_cmp_ps_mask(x.raw, _mm512_set1_ps(-126.0F / kScoreBits), _CMP_NLT_UQ);  // NaN is kept
  const Vector power = hn::Mul(x, hn::Set(kFloats, kScoreBits));
  return Vector{_mm512_maskz_scalef_ps(kept, polynomial(f, kPowers).raw, power.raw)};
#else
  // n = 8x rounded, f = x - n/8 in [-1/16, 1/16]: 2·2^(8f) · 2^(n-1).
  constexpr float kPowers[] = {
      2.0F, 8 * 1.386294008F, 64 * 0.48044467F, 512 * 0.1110132634F, 4096 * 0.01934495196F, 32768 * 0.00266070058F};
  const Vector magic = hn::Set(kFloats, kRoundToExponent);
  const Vector t = clamp(x, -126.0F / kScoreBits, 128.0F / kScoreBits);
  const Vector shifted = hn::MulAdd(t, hn::Set(kFloats, kScoreBits), magic);
  const Vector f = hn::NegMulAdd(hn::Sub(shifted, magic), hn::Set(kFloats, 1.0F / kScoreBits), t);
  return hn::Mul(polynomial(f, kPowers), half_power(shifted));
#endif
}

// e^x, exactly 1 at 0. Results below 2^-125.5 are 0. With n = x / ln 2 rounded and r = x - n ln 2 (ln 2 in two parts,
// the products with the first one exact): 2 (1 + r + r² q(r)) · 2^(n-1).
HWY_INLINE Vector exp(Vector x) {
  constexpr float kPowers[] = {0.499999940F, 0.166665167F, 0.0416682474F, 0.00836907979F, 0.00138207572F};
  const Vector magic = hn::Set(kFloats, kRoundToExponent);
  const Vector t = clamp(x, -87.3365479F, 89.0F);
  const Vector shifted = hn::MulAdd(t, hn::Set(kFloats, 1.44269502F), magic);
  const Vector n = hn::Sub(shifted, magic);
  const Vector near = hn::NegMulAdd(n, hn::Set(kFloats, 0.693359375F), t);
  const Vector r = hn::MulAdd(n, hn::Set(kFloats, 2.12194442e-4F), near);
  const Vector above_one = hn::MulAdd(hn::Mul(r, r), polynomial(r, kPowers), r);
  const Vector power = hn::Add(hn::Set(kFloats, 1.0F), above_one);
  return hn::Mul(hn::Add(power, power), half_power(shifted));
}

// Natural logarithm: log 0 = -∞, NaN below 0; handles denormals. With x = m 2^e, m in [√½, √2), f = m - 1:
//     log x = e ln 2 + f - f²/2 + f³ q(f).
HWY_INLINE Vector log(Vector x) {
  constexpr float kPowers[] = {0.333333135F,  -0.250000805F, 0.200021148F,  -0.166630849F, 0.142147794F,
                               -0.124984704F, 0.120260708F,  -0.111463808F, 0.0576377288F};
  const hn::RebindToSigned<FloatTag> bits;
  const Vector infinity = hn::Inf(kFloats);
  const auto denormal = hn::Lt(x, hn::Set(kFloats, 0x1p-126F));
  const Vector normal = hn::IfThenElse(denormal, hn::Mul(x, hn::Set(kFloats, 0x1p23F)), x);
  // Subtract the bits of √½, so that the exponent changes at √½ instead of ½.
  const auto from_root = hn::Sub(hn::BitCast(bits, normal), hn::Set(bits, 0x3f3504f3));
  const auto exponent = hn::ShiftRight<23>(from_root);
  const Vector m = hn::BitCast(kFloats, hn::Sub(hn::BitCast(bits, normal), hn::ShiftLeft<23>(exponent)));
  const Vector moved = hn::IfThenElseZero(denormal, hn::Set(kFloats, 23.0F));
  const Vector e = hn::Sub(hn::ConvertTo(kFloats, exponent), moved);
  const Vector f = hn::Sub(m, hn::Set(kFloats, 1.0F));
  const Vector square = hn::Mul(f, f);
  Vector small = hn::Mul(hn::Mul(square, f), polynomial(f, kPowers));
  small = hn::MulAdd(e, hn::Set(kFloats, -2.12194442e-4F), small);
  small = hn::NegMulAdd(hn::Set(kFloats, 0.5F), square, small);
  const Vector finite = hn::MulAdd(e, hn::Set(kFloats, 0.693359375F), hn::Add(f, small));
  const Vector zero = hn::Zero(kFloats);
  const Vector below_zero = hn::IfThenElse(hn::Lt(x, zero), hn::NaN(kFloats), hn::Neg(infinity));  // or at zero
  const Vector not_positive = hn::IfThenElse(hn::Le(x, zero), below_zero, x);  // ∞ and NaN pass through
  return hn::IfThenElse(hn::And(hn::Gt(x, zero), hn::Lt(x, infinity)), finite, not_positive);
}

// Below this, tanh is x + x³ q(x²).
inline constexpr float kSmallTanh = 0.625F;

HWY_INLINE Vector small_tanh(Vector x) {
  constexpr float kPowers[] = {-0.333332807F, 0.133314058F, -0.0537368543F, 0.0206305571F, -0.00569632743F};
  const Vector square = hn::Mul(x, x);
  return hn::MulAdd(hn::Mul(square, x), polynomial(square, kPowers), x);
}

// 1 - 2 / (e^(2|x|) + 1) unless |x| is small, with the sign of x.
HWY_INLINE Vector tanh(Vector x) {
  const Vector size = hn::Abs(x);
  const Vector one = hn::Set(kFloats, 1.0F);
  const Vector below_one = hn::Div(hn::Set(kFloats, 2.0F), hn::Add(exp(hn::Add(size, size)), one));
  const Vector large = hn::Sub(one, below_one);
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(kFloats, kSmallTanh)), small_tanh(x), large), x);
}

// (2/√π) ∫ e^(-t²) dt from 0 to x: x + x q(x²) below 0.9, 1 - e^p(x) with p = log(1 - erf) from there (1 from 3.92 on),
// with the sign of x.
HWY_INLINE Vector erf(Vector x) {
  constexpr float kSmall[] = {0.128379166F,   -0.376126319F,    0.112837009F,  -0.0268607866F,
                              0.00520613231F, -0.000821279944F, 8.70216245e-5F};
  constexpr float kLarge[] = {-0.000166449259F, -1.12779725F,    -0.636976063F, -0.104113705F,
                              0.0223152284F,    -0.00306549412F, 0.00019821999F};
  const Vector size = clamp(hn::Abs(x), 0.0F, 4.0F);
  const Vector small = hn::MulAdd(x, polynomial(hn::Mul(size, size), kSmall), x);
  const Vector large = hn::Sub(hn::Set(kFloats, 1.0F), exp(polynomial(size, kLarge)));
  return hn::CopySign(hn::IfThenElse(hn::Lt(size, hn::Set(kFloats, 0.9F)), small, large), x);
}

// 1 / (1 + e^-x), as 1 / (1 + e^-|x|) or e^-|x| / (1 + e^-|x|): small results keep their accuracy.
HWY_INLINE Vector sigmoid(Vector x) {
  const Vector one = hn::Set(kFloats, 1.0F);
  const Vector power = exp(hn::Neg(hn::Abs(x)));
  const Vector numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(kFloats)), power, one);
  return hn::Div(numerator, hn::Add(one, power));
}

// 1 / (1 + 256^-x), for attention's sigmoid weights; 0 below 2^-126. On AVX-512 a vector division takes as long as 16
// multiplications. There the reciprocal of y ≥ 1 starts from bits(1/y) ≈ kReciprocalBits - bits(y), 5.1 % off, and two
// iterations, each of which takes the error to its cube, leave only rounding error.
inline constexpr int32_t kReciprocalBits = 0x7ef31000;

HWY_INLINE Vector sigmoid_base256(Vector x) {
  constexpr float kMost = 126.0F / kScoreBits;
  const Vector one = hn::Set(kFloats, 1.0F);
  const Vector y = hn::Add(one, exp256(hn::Neg(clamp(x, -kMost, kMost))));
  const auto vanishes = hn::Lt(x, hn::Set(kFloats, -kMost));
#if HWY_TARGET <= HWY_AVX3
  const hn::RebindToSigned<FloatTag> bits;
  Vector inverse = hn::BitCast(kFloats, hn::Sub(hn::Set(bits, kReciprocalBits), hn::BitCast(bits, y)));
  for (int i = 0; i < 2; ++i) {
    const Vector error = hn::NegMulAdd(y, inverse, one);
    inverse = hn::MulAdd(inverse, hn::MulAdd(error, error, error), inverse);
  }
#else
  const Vector inverse = hn::Div(one, y);
#endif
  return hn::IfThenZeroElse(vanishes, inverse);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
