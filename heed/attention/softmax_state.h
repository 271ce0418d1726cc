// The algebra of a row's softmax state, its shift m, sum l and output o, with rows in lanes or one row in all
// lanes. Kernel sources only.
//
//     merge:   m' = max(m, m_p), l' = l · 256^(m - m') + l_p · 256^(m_p - m'), o likewise
//     groups:  pieces merge in groups of kGroupPieces, and the groups into a total, which is a sum and the rest that
//              its roundings lost. While shifts stay equal, as mostly, the error does not grow with the number of
//              groups; a change of the shift rounds once more
//     shift:   0 while a piece's sum is in range, else its largest score
//     sink:    one more piece, merged last: a key without a value
//     sigmoid: weights are added up as they are, so that at the end m = 0 and l = 1
//     end:     out = o · output factor
#pragma once

#include <limits>

#include "heed/attention/forward_kernel.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// How two states are brought to one shift: what each of them is multiplied by.
struct Rescale {
  Vector shift;
  Vector old;
  Vector added;
};

HWY_INLINE Rescale rescale(Vector m, Vector m_added) {
  const Vector one = hn::Set(kFloats, 1.0F);
  const Vector most = hn::IfThenElse(hn::Gt(m_added, m), m_added, m);
  // Equal shifts may be -∞: no key yet.
  return {most, hn::IfThenElse(hn::Eq(m, most), one, exp256(hn::Sub(m, most))),
          hn::IfThenElse(hn::Eq(m_added, most), one, exp256(hn::Sub(m_added, most)))};
}

// A sum or output of the old state and that of the added one, together.
HWY_INLINE Vector merged(const Rescale& scale, Vector old, Vector added) {
  return hn::MulAdd(added, scale.added, hn::Mul(old, scale.old));
}

// total + rest += added, with what the sum of total and added loses to rounding (Knuth's two-sum) in `rest`.
HWY_INLINE void add_with_rest(Vector added, Vector& total, Vector& rest) {
  const Vector sum = hn::Add(total, added);
  const Vector part = hn::Sub(sum, total);
  const Vector lost = hn::Add(hn::Sub(total, hn::Sub(sum, part)), hn::Sub(added, part));
  total = sum;
  rest = hn::Add(rest, lost);
}

// One vector of a group's sum or output into the total's.
HWY_INLINE void add_to_total(const Rescale& scale, const float* added, float* total, float* rest) {
  Vector sum = hn::Mul(hn::LoadU(kFloats, total), scale.old);
  Vector lost = hn::Mul(hn::LoadU(kFloats, rest), scale.old);
  add_with_rest(hn::Mul(hn::LoadU(kFloats, added), scale.added), sum, lost);
  hn::StoreU(sum, kFloats, total);
  hn::StoreU(lost, kFloats, rest);
}

// total += rest, one vector. The rest of a total that is not finite is NaN, and is left out: ∞ stays ∞.
HWY_INLINE void add_rest(const float* rest, float* total) {
  const Vector sum = hn::LoadU(kFloats, total);
  const Vector lost = hn::LoadU(kFloats, rest);
  hn::StoreU(hn::IfThenElse(hn::Eq(lost, lost), hn::Add(sum, lost), sum), kFloats, total);
}

// Lanes whose sum lets the piece keep the shift 0. NaN and ∞ are not in range.
HWY_INLINE hn::Mask<FloatTag> in_range(Vector sum) {
  return hn::And(hn::Ge(sum, hn::Set(kFloats, kLeastSum)), hn::Le(sum, hn::Set(kFloats, kMostSum)));
}

inline bool in_range(float sum) { return sum >= kLeastSum && sum <= kMostSum; }

// A sum of up to 128 weights lies between the largest one and 2^7 of it. So a largest score in kLeastInside …
// kMostInside tells that the sum with the shift 0 will be in range, and one outside of kLeastOutside …
// kMostOutside that it will not.
inline constexpr float kLeastInside = -59.0F / kScoreBits;
inline constexpr float kMostInside = 52.0F / kScoreBits;
inline constexpr float kLeastOutside = -68.0F / kScoreBits;
inline constexpr float kMostOutside = 61.0F / kScoreBits;

// The sink of a head as a piece of its own, one key without a value: its shift is 0 where 256^sink is in range,
// else the sink itself.
struct Sink {
  bool is_none = false;  // -∞: it changes nothing
  Vector shift;
  Vector sum;
};

HWY_INLINE Sink sink_of(const ScoreJob& job, int64_t head, RowMode mode) {
  const Vector sink = hn::Set(kFloats, job.sink(head));
  const Vector unshifted_sum = exp256(sink);
  const auto unshifted = in_range(unshifted_sum);
  const Vector headroom = hn::Set(kFloats, mode == RowMode::true_maximum ? kHeadroom : 1.0F);
  return {hn::AllTrue(kFloats, hn::Eq(sink, hn::Set(kFloats, -std::numeric_limits<float>::infinity()))),
          hn::IfThenZeroElse(unshifted, sink),
          hn::Mul(hn::IfThenElse(unshifted, unshifted_sum, hn::Set(kFloats, 1.0F)), headroom)};
}

// Merges the sink into shift and sum of rows in lanes. Returns what their o is to be multiplied by.
HWY_INLINE Vector add_sink(const Sink& sink, Vector& shift, Vector& sum) {
  const Rescale scale = rescale(shift, sink.shift);
  shift = scale.shift;
  sum = merged(scale, sum, sink.sum);
  return scale.old;
}

// What o is multiplied by at the end: 1 / sum, 0 where no key was seen; times 1 / (1 - p).
HWY_INLINE Vector output_factor(const ScoreJob& job, Vector sum) {
  const Vector scale = hn::Set(kFloats, job.kept_scale);
  return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(kFloats)), hn::Div(scale, sum));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
