// Transposes between rows and lanes, as 4 × 4 transposes within each 128-bit block. Kernel sources only.
#pragma once

#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// The 4 × 4 transpose of each 128-bit block of a, b, c, d.
HWY_INLINE void transpose_blocks(Vector& a, Vector& b, Vector& c, Vector& d) {
  const hn::Repartition<double, FloatTag> pairs;
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(kFloats, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, a, b));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(kFloats, c, d));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(kFloats, c, d));
  a = hn::BitCast(kFloats, hn::InterleaveLower(pairs, ab_low, cd_low));
  b = hn::BitCast(kFloats, hn::InterleaveUpper(pairs, ab_low, cd_low));
  c = hn::BitCast(kFloats, hn::InterleaveLower(pairs, ab_high, cd_high));
  d = hn::BitCast(kFloats, hn::InterleaveUpper(pairs, ab_high, cd_high));
}

// One vector whose 128-bit block i is the four floats at from + i · step.
HWY_INLINE Vector load_blocks(const float* from, int64_t step) {
#if HWY_TARGET <= HWY_AVX3
  const __m512 low = _mm512_castps256_ps512(
      _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + step), 1));
  const __m512 three = _mm512_mask_broadcast_f32x4(low, 0x0f00, _mm_loadu_ps(from + 2 * step));
  return Vector{_mm512_mask_broadcast_f32x4(three, 0xf000, _mm_loadu_ps(from + 3 * step))};
#elif HWY_TARGET == HWY_AVX2
  return Vector{_mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)), _mm_loadu_ps(from + step), 1)};
#else
  (void)step;
  return hn::LoadU(kFloats, from);
#endif
}

// The inverse of load_blocks.
HWY_INLINE void store_blocks(Vector value, float* to, int64_t step) {
#if HWY_TARGET <= HWY_AVX3
  _mm_storeu_ps(to, _mm512_castps512_ps128(value.raw));
  _mm_storeu_ps(to + step, _mm512_extractf32x4_ps(value.raw, 1));
  _mm_storeu_ps(to + 2 * step, _mm512_extractf32x4_ps(value.raw, 2));
  _mm_storeu_ps(to + 3 * step, _mm512_extractf32x4_ps(value.raw, 3));
#elif HWY_TARGET == HWY_AVX2
  _mm_storeu_ps(to, _mm256_castps256_ps128(value.raw));
  _mm_storeu_ps(to + step, _mm256_extractf128_ps(value.raw, 1));
#else
  (void)step;
  hn::StoreU(value, kFloats, to);
#endif
}

// Packs rows into lanes: to[column · to_step + row] = factor · from[row · from_step + column] for `rows` ≤ kLanes rows
// and `columns` columns; lanes past `rows` are 0.
HWY_INLINE void rows_to_lanes(const float* from, int64_t from_step, int64_t rows, int64_t columns, float factor,
                              float* to, int64_t to_step) {
  const Vector scale = hn::Set(kFloats, factor);
  int64_t column = 0;
  if (rows == kLanes) {
    for (; column + 4 <= columns; column += 4) {
      const float* at = from + column;
      Vector a = load_blocks(at, 4 * from_step);
      Vector b = load_blocks(at + from_step, 4 * from_step);
      Vector c = load_blocks(at + 2 * from_step, 4 * from_step);
      Vector d = load_blocks(at + 3 * from_step, 4 * from_step);
      transpose_blocks(a, b, c, d);
      float* out = to + column * to_step;
      hn::StoreU(hn::Mul(a, scale), kFloats, out);
      hn::StoreU(hn::Mul(b, scale), kFloats, out + to_step);
      hn::StoreU(hn::Mul(c, scale), kFloats, out + 2 * to_step);
      hn::StoreU(hn::Mul(d, scale), kFloats, out + 3 * to_step);
    }
  }
  for (; column < columns; ++column) {
    float* out = to + column * to_step;
    for (int64_t row = 0; row < rows; ++row) out[row] = factor * from[row * from_step + column];
    for (int64_t row = rows; row < kLanes; ++row) out[row] = 0.0F;
  }
}

// Unpacks lanes into rows: to[row · to_step + column] = factor[row] · from[column · from_step + row] for `rows` ≤
// kLanes rows; nothing past `rows` and `columns` is written. -0 becomes 0: the sign of a sum that underflowed may
// depend on what else was in its tile.
HWY_INLINE void lanes_to_rows(const float* from, int64_t from_step, const float* factor, int64_t rows, int64_t columns,
                              float* to, int64_t to_step) {
  const Vector scale = hn::LoadU(kFloats, factor);
  const auto scaled = [=](const float* at)
                          HWY_ATTR { return hn::Add(hn::Mul(hn::LoadU(kFloats, at), scale), hn::Zero(kFloats)); };
  int64_t column = 0;
  if (rows == kLanes) {
    for (; column + 4 <= columns; column += 4) {
      const float* at = from + column * from_step;
      Vector a = scaled(at);
      Vector b = scaled(at + from_step);
      Vector c = scaled(at + 2 * from_step);
      Vector d = scaled(at + 3 * from_step);
      transpose_blocks(a, b, c, d);
      float* out = to + column;
      store_blocks(a, out, 4 * to_step);
      store_blocks(b, out + to_step, 4 * to_step);
      store_blocks(c, out + 2 * to_step, 4 * to_step);
      store_blocks(d, out + 3 * to_step, 4 * to_step);
    }
  }
  for (; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      to[row * to_step + column] = factor[row] * from[column * from_step + row] + 0.0F;
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
