// Slow paths of the forward kernel: scores out of range, nonfinite results. For forward_kernel.cpp only.
#pragma once

#include "heed/attention/forward_block.h"
#include "heed/attention/softmax_state.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Pass 2, rarely: recomputes the piece's weights and sums with the true maximum as the shift of the queries whose sum
// was out of range. The others get the same bits as before.
inline void ForwardBlock::use_true_maximum(const QueryPanel& panel, const KeyPiece& piece, RowMode mode) {
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
    Vector shift = most;
    if (mode != RowMode::true_maximum) {
      shift = hn::IfThenElse(in_range(hn::LoadU(kFloats, sum_at)), hn::Zero(kFloats), most);
    }
    const Vector headroom = hn::Set(kFloats, mode == RowMode::true_maximum ? kHeadroom : 1.0F);
    Vector sum = hn::Zero(kFloats);
    for_each_score(c, [&](auto visible, float* at) HWY_ATTR {
      const Vector score = hn::Sub(hn::LoadU(kFloats, at), shift);
      const Vector power = job_.scores.has_options ? weight_of(job_.scores, score) : exp256(score);
      const Vector weight = hn::IfThenElseZero(visible, hn::Mul(power, headroom));
      sum = hn::Add(sum, weight);
      hn::StoreU(weight, kFloats, at);
    });
    hn::StoreU(sum, kFloats, sum_at);
    hn::StoreU(shift, kFloats, piece_shift_ + c * kLanes);
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

// Merges the piece into the group when their shifts differ.
inline void ForwardBlock::merge_scaled(QueryPanel& panel) {
  for (int c = 0; c < panel.vectors; ++c) {
    const int64_t at = int64_t{c} * kLanes;
    const Rescale scale = rescale(hn::LoadU(kFloats, panel.group.shift + at), hn::LoadU(kFloats, piece_shift_ + at));
    const auto merge = [&](float* to, const float* from) HWY_ATTR {
      hn::StoreU(merged(scale, hn::LoadU(kFloats, to), hn::LoadU(kFloats, from)), kFloats, to);
    };
    hn::StoreU(scale.shift, kFloats, panel.group.shift + at);
    merge(panel.group.sum + at, piece_sum_ + at);
    for (int64_t d = 0; d < d_v_; ++d) merge(panel.group.o + d * kWidth + at, piece_o_ + d * kWidth + at);
  }
}

// Marks the queries whose sum or output is not finite: 0 · x is NaN only for NaN and ±∞.
inline bool ForwardBlock::find_suspects(QueryPanel& panel) {
  if (!panel.started) return false;
  const Vector zero = hn::Zero(kFloats);
  bool found = false;
  for (int c = 0; c < panel.vectors; ++c) {
    const float* o = panel.group.o + c * kLanes;
    const Vector sum = hn::LoadU(kFloats, panel.group.sum + c * kLanes);
    const Vector factor = output_factor(job_.scores, sum);
    Vector probe[2] = {hn::Mul(sum, zero), zero};
    const auto add = [&](int64_t row, Vector& to)
                         HWY_ATTR { to = hn::MulAdd(hn::Mul(hn::LoadU(kFloats, o + row * kWidth), factor), zero, to); };
    int64_t d = 0;
    for (; d + 2 <= d_v_; d += 2) {
      add(d, probe[0]);
      add(d + 1, probe[1]);
    }
    if (d < d_v_) add(d, probe[0]);
    const Vector both = hn::Add(probe[0], probe[1]);
    hn::StoreU(both, kFloats, panel.suspect + c * kLanes);
    found = found || !hn::AllTrue(kFloats, hn::Eq(both, zero));
  }
  return found;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
