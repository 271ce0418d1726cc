// What the forward kernel does rarely: scores out of range, results that are not finite. For forward_kernel.cpp only.
#pragma once

#include "heed/attention/forward_block.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// 2, rarely: the piece's weights and sums again, with the true maximum as the reference of the queries whose sum was
// out of range. The others get the same bits as before.
inline void ForwardBlock::use_true_maximum(const QueryPanel& panel, const KeyPiece& piece, ForwardMode mode) {
  store_scores(panel, piece);
  const auto for_each_score = [&](int c, auto visit) HWY_ATTR {
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      if (c < run.first || c >= run.first + run.vectors) continue;
      for (int64_t key = run.begin; key < run.end; ++key) {
        visit(mask_.visible(key, c), weights_ + key * kWidth + c * kLanes);
      }
    }
  };
  for (int c = 0; c < panel.vectors; ++c) {
    Vector most = hn::Set(kFloats, -kInfinity);
    for_each_score(c, [&](auto visible, const float* at) HWY_ATTR {
      const Vector score = hn::LoadU(kFloats, at);
      most = hn::IfThenElse(hn::And(visible, hn::Gt(score, most)), score, most);
    });
    float* const sum_at = piece_sum_ + c * kLanes;
    Vector reference = most;
    if (mode != ForwardMode::true_maximum) {
      reference = hn::IfThenElse(in_range(hn::LoadU(kFloats, sum_at)), hn::Zero(kFloats), most);
    }
    Vector sum = hn::Zero(kFloats);
    for_each_score(c, [&](auto visible, float* at) HWY_ATTR {
      const Vector score = hn::Sub(hn::LoadU(kFloats, at), reference);
      const Vector weight =
          hn::IfThenElseZero(visible, job_.scores.on_tiles ? weight_of(job_.scores, score) : exp2(score));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, kFloats, at);
    });
    hn::StoreU(sum, kFloats, sum_at);
    hn::StoreU(reference, kFloats, piece_reference_ + c * kLanes);
  }
}

// The same chains, without the keys that a query does not see.
inline void ForwardBlock::multiply_run_careful(const KeyPiece& piece, const KeyRun& run, float* o) {
  for (int c = run.first; c < run.first + run.vectors; ++c) {
    for (int64_t d = 0; d < d_v_; ++d) {
      float* at = o + d * kWidth + c * kLanes;
      Vector sum = hn::LoadU(kFloats, at);
      for (int64_t key = run.begin; key < run.end; ++key) {
        const Vector weight = hn::LoadU(kFloats, weights_ + key * kWidth + c * kLanes);
        const Vector next = hn::MulAdd(hn::Set(kFloats, piece.v[key * piece.v_step + d]), weight, sum);
        sum = hn::IfThenElse(mask_.visible(key, c), next, sum);
      }
      hn::StoreU(sum, kFloats, at);
    }
  }
}

// m' = max(m, m_p), l = l · 2^(m - m') + l_p · 2^(m_p - m'), o likewise.
inline void ForwardBlock::merge_scaled(QueryPanel& panel) {
  const Vector one = hn::Set(kFloats, 1.0F);
  for (int c = 0; c < panel.vectors; ++c) {
    const int64_t at = int64_t{c} * kLanes;
    const Vector m = hn::LoadU(kFloats, panel.reference + at);
    const Vector m_piece = hn::LoadU(kFloats, piece_reference_ + at);
    const Vector most = hn::IfThenElse(hn::Gt(m_piece, m), m_piece, m);
    const Vector scale = hn::IfThenElse(hn::Eq(m, most), one, exp2(hn::Sub(m, most)));
    const Vector scale_piece = hn::IfThenElse(hn::Eq(m_piece, most), one, exp2(hn::Sub(m_piece, most)));
    const auto merge = [&](float* to, const float* from) HWY_ATTR {
      const Vector old = hn::Mul(hn::LoadU(kFloats, to), scale);
      hn::StoreU(hn::MulAdd(hn::LoadU(kFloats, from), scale_piece, old), kFloats, to);
    };
    hn::StoreU(most, kFloats, panel.reference + at);
    merge(panel.sum + at, piece_sum_ + at);
    for (int64_t d = 0; d < d_v_; ++d) merge(panel.o + d * kWidth + at, piece_o_ + d * kWidth + at);
  }
}

// Marks the queries whose o or sum is not finite: 0 · x is NaN for NaN and ±∞ alone.
inline bool ForwardBlock::find_suspects(QueryPanel& panel) {
  if (!panel.started) return false;
  const Vector zero = hn::Zero(kFloats);
  bool found = false;
  for (int c = 0; c < panel.vectors; ++c) {
    const float* o = panel.o + c * kLanes;
    Vector probe[2] = {hn::Mul(hn::LoadU(kFloats, panel.sum + c * kLanes), zero), zero};
    int64_t d = 0;
    for (; d + 2 <= d_v_; d += 2) {
      probe[0] = hn::MulAdd(hn::LoadU(kFloats, o + d * kWidth), zero, probe[0]);
      probe[1] = hn::MulAdd(hn::LoadU(kFloats, o + (d + 1) * kWidth), zero, probe[1]);
    }
    if (d < d_v_) probe[0] = hn::MulAdd(hn::LoadU(kFloats, o + d * kWidth), zero, probe[0]);
    const Vector both = hn::Add(probe[0], probe[1]);
    hn::StoreU(both, kFloats, panel.suspect + c * kLanes);
    found = found || !hn::AllTrue(kFloats, hn::Eq(both, zero));
  }
  return found;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
