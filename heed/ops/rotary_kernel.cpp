#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/rotary_kernel.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// A vector of pairs (x, y).
struct Pairs {
  Vector x;
  Vector y;

  HWY_INLINE Pairs rotated(Vector cosine, Vector sine) const {
    return {hn::NegMulAdd(y, sine, hn::Mul(x, cosine)), hn::MulAdd(x, sine, hn::Mul(y, cosine))};
  }
};

// Loads and stores kLanes pairs of a head, from pair i on, of `pairs`.
template <RotaryPairing pairing>
HWY_INLINE Pairs load_pairs(const float* head, int64_t i, int64_t pairs) {
  Pairs result;
  if constexpr (pairing == RotaryPairing::interleaved) {
    hn::LoadInterleaved2(kFloats, head + 2 * i, result.x, result.y);
  } else {
    result.x = hn::LoadU(kFloats, head + i);
    result.y = hn::LoadU(kFloats, head + pairs + i);
  }
  return result;
}

template <RotaryPairing pairing>
HWY_INLINE void store_pairs(const Pairs& from, float* head, int64_t i, int64_t pairs) {
  if constexpr (pairing == RotaryPairing::interleaved) {
    hn::StoreInterleaved2(from.x, from.y, kFloats, head + 2 * i);
  } else {
    hn::StoreU(from.x, kFloats, head + i);
    hn::StoreU(from.y, kFloats, head + pairs + i);
  }
}

// The last pairs, fewer than a vector, go through vectors too: the same arithmetic, so the same bits.
template <RotaryPairing pairing>
HWY_INLINE void rotate_tail(const RotaryToken& token, const float* x, float* out, int64_t i, Vector sign) {
  const int64_t pairs = token.pairs;
  const int64_t count = pairs - i;
  HWY_ALIGN float head[2 * kLanes] = {};
  HWY_ALIGN float angle[2 * kLanes] = {};
  const bool neighbours = pairing == RotaryPairing::interleaved;
  const auto x_at = [&](int64_t n) { return neighbours ? 2 * (i + n) : i + n; };
  const auto y_at = [&](int64_t n) { return neighbours ? 2 * (i + n) + 1 : pairs + i + n; };
  for (int64_t n = 0; n < count; ++n) {
    head[n] = x[x_at(n)];
    head[kLanes + n] = x[y_at(n)];
    angle[n] = token.table[i + n];
    angle[kLanes + n] = token.table[pairs + i + n];
  }
  const Pairs before{hn::Load(kFloats, head), hn::Load(kFloats, head + kLanes)};
  const Vector sine = hn::Mul(hn::Load(kFloats, angle + kLanes), sign);
  const Pairs after = before.rotated(hn::Load(kFloats, angle), sine);
  hn::Store(after.x, kFloats, head);
  hn::Store(after.y, kFloats, head + kLanes);
  for (int64_t n = 0; n < count; ++n) {
    out[x_at(n)] = head[n];
    out[y_at(n)] = head[kLanes + n];
  }
}

template <RotaryPairing pairing>
void rotate(const RotaryToken& token) {
  const int64_t pairs = token.pairs;
  const float* const cosines = token.table;
  const float* const sines = token.table + pairs;
  const Vector sign = hn::Set(kFloats, token.backward ? -1.0F : 1.0F);
  for (int64_t h = 0; h < token.heads; ++h) {
    const float* const x = token.x + h * token.x_step;
    float* const out = token.out + h * token.out_step;
    int64_t i = 0;
    for (; i + kLanes <= pairs; i += kLanes) {
      const Vector sine = hn::Mul(hn::LoadU(kFloats, sines + i), sign);
      const Pairs before = load_pairs<pairing>(x, i, pairs);
      store_pairs<pairing>(before.rotated(hn::LoadU(kFloats, cosines + i), sine), out, i, pairs);
    }
    if (i < pairs) rotate_tail<pairing>(token, x, out, i, sign);
    if (out != x) std::copy(x + 2 * pairs, x + token.width, out + 2 * pairs);
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void rotary_kernel<kTargetIsa>(const RotaryToken& token) {
  if (token.pairing == RotaryPairing::halves) {
    HWY_NAMESPACE::rotate<RotaryPairing::halves>(token);
  } else {
    HWY_NAMESPACE::rotate<RotaryPairing::interleaved>(token);
  }
}

}  // namespace heed
