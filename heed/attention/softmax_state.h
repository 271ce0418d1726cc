// The algebra of a row's softmax state, its shift m, sum l and output o, with rows in lanes or one row in all
// lanes. Kernel sources only.
//
//     merge:   m' = max(m, m_p), l' = l · 256^(m - m') + l_p · 256^(m_p - m'), o likewise
//     groups:  pieces merge in groups of kGroupPieces, and the groups into a total, which is a sum and the rest that
//              its roundings lost. While shifts stay equal, as mostly, the error does not grow with the number of
//              groups; a change of the shift rounds once more
#pragma once

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

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
