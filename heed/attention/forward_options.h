// What the forward kernel does for score options: passes over the stored scores of a piece, and the sink at the end.
// Without options only store_scores() is used, rarely. For forward_kernel.cpp only.
#pragma once

#include "heed/attention/forward_block.h"
#include "heed/attention/score_passes.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// `bias`, where not null, hides keys by -∞: the dense bias of the panel's first query and the segment's first key.
inline void ForwardBlock::prepare_mask(const QueryPanel& panel, const KeyPiece& piece, const float* bias) {
  mask_.prepare(panel.keys, panel.vectors, piece.begin, piece.keys,
                {job_.mask, block_.b, head_, panel.q_begin, panel.rows, block_.segment.k_begin, bias,
                 job_.scores.bias.stride(2)});
}

// The scores of the piece, capped and biased, in the place of its weights. Where -∞ in the bias hides keys, the mask
// knows afterwards.
inline void ForwardBlock::store_scores(const QueryPanel& panel, const KeyPiece& piece) {
  const ScoreJob& job = job_.scores;
  bool hides = false;
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun& run = mask_.run(i);
    with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR {
      score_tiles<C>(panel, piece, run, [&]<int R>(const RegisterTile<R, C>& tile, int64_t key) HWY_ATTR {
        tile.store(weights_ + key * kWidth + run.first * kLanes, kWidth);
      });
    });
    if (!job.on_tiles) continue;
    const ScoreTile tile{weights_ + run.begin * kWidth + run.first * kLanes, kWidth, run.end - run.begin, run.vectors};
    if (job.cap != 0.0F) cap_scores(job, tile);
    if (job.positions.values != nullptr) {
      const int64_t key = block_.segment.k_begin + piece.begin + run.begin;
      add_position_bias(job.positions.of(block_.b, head_, panel.q_begin + run.first * kLanes, key), tile);
    }
    if (job.bias.data() != nullptr) hides = add_bias(panel, piece, run) || hides;
  }
  if (hides) prepare_mask(panel, piece, job.bias_row(block_.b, head_, panel.q_begin, block_.segment.k_begin));
}

// Adds the dense bias, brought into lanes. Does it hide a key?
inline bool ForwardBlock::add_bias(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run) {
  const ScoreJob& job = job_.scores;
  const int64_t key = block_.segment.k_begin + piece.begin + run.begin;
  for (int c = run.first; c < run.first + run.vectors; ++c) {
    const int64_t lane = int64_t{c} * kLanes;
    rows_to_lanes(job.bias_row(block_.b, head_, panel.q_begin + lane, key), job.bias.stride(2),
                  std::min<int64_t>(panel.rows - lane, kLanes), run.end - run.begin, static_cast<float>(kLog2E),
                  bias_ + run.begin * kWidth + lane, kWidth);
  }
  const float* const from = bias_ + run.begin * kWidth + run.first * kLanes;
  Vector least = hn::Zero(kFloats);
  transform({weights_ + run.begin * kWidth + run.first * kLanes, kWidth, run.end - run.begin, run.vectors},
            [&](int64_t row, int c, Vector score) HWY_ATTR {
              const Vector bias = hn::LoadU(kFloats, from + row * kWidth + c * kLanes);
              least = hn::Min(bias, least);  // in this order NaN leaves `least` as it is
              return hn::Add(score, bias);
            });
  return !hn::AllFalse(kFloats, hn::Eq(least, hn::Set(kFloats, -kInfinity)));
}

// 1. Weights from the stored scores, 0 where hidden, and their sums, in the order of exponentiate_run().
inline void ForwardBlock::weigh_stored() {
  const bool sigmoid = job_.scores.sigmoid;
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun run = mask_.run(i);
    with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR {
      const PanelMask& mask = mask_;
      float* const sums = piece_sum_ + run.first * kLanes;
      float* const weights = weights_ + run.first * kLanes;
      Vector sum[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[c] = hn::LoadU(kFloats, sums + c * kLanes);
      for (int64_t key = run.begin; key < run.end; ++key) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
          float* const at = weights + key * kWidth + c * kLanes;
          const Vector score = hn::LoadU(kFloats, at);
          Vector weight = sigmoid ? sigmoid_base2(score) : exp2(score);
          if (c < run.masked) weight = hn::IfThenElseZero(mask.visible(key, run.first + c), weight);
          if (!sigmoid) sum[c] = hn::Add(sum[c], weight);
          hn::StoreU(weight, kFloats, at);
        }
      }
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) hn::StoreU(sum[c], kFloats, sums + c * kLanes);
    });
  }
}

inline void ForwardBlock::set_dropout(const QueryPanel& panel) const {
  const Rng rng = dropout_head(*job_.scores.dropout, block_.b, head_);
  for (int64_t lane = 0; lane < kWidth; ++lane) {
    const DropoutRow row = dropout_row(rng, panel.q_begin + lane);
    panel.dropout[lane] = row.first;
    panel.dropout[kWidth + lane] = row.second;
  }
}

// Weights times 0 or 1, after their sum was taken. 1 / (1 - p) comes at the end, with 1 / sum.
inline void ForwardBlock::drop_weights(const QueryPanel& panel, const KeyPiece& piece) {
  const int32_t threshold = dropout_threshold(*job_.scores.dropout);
  const auto first_key = static_cast<uint32_t>(block_.segment.k_begin + piece.begin);
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun& run = mask_.run(i);
    for (int c = run.first; c < run.first + run.vectors; ++c) {
      const DropoutVector first = hn::LoadU(kDropoutWords, panel.dropout + c * kLanes);
      const DropoutVector second = hn::LoadU(kDropoutWords, panel.dropout + kWidth + c * kLanes);
      for (int64_t key = run.begin; key < run.end; ++key) {
        float* const at = weights_ + key * kWidth + c * kLanes;
        const uint32_t key_step = (first_key + static_cast<uint32_t>(key)) * kDropoutKeyStep;
        const Vector keep = kept(first, second, hn::Set(kDropoutWords, key_step), threshold);
        hn::StoreU(hn::Mul(hn::LoadU(kFloats, at), keep), kFloats, at);
      }
    }
  }
}

// The sink, merged last, as a piece of its own: one key without a value. Its reference is 0 where 2^sink is in range,
// else the sink itself.
inline void ForwardBlock::merge_sink(QueryPanel& panel) {
  const Vector sink = scaled_bias(hn::Set(kFloats, job_.scores.sinks(head_)));
  const Vector infinite = hn::Set(kFloats, -kInfinity);
  if (hn::AllTrue(kFloats, hn::Eq(sink, infinite))) return;
  const Vector zero = hn::Zero(kFloats);
  const Vector one = hn::Set(kFloats, 1.0F);
  const Vector plain_sum = exp2(sink);
  const auto plain = in_range(plain_sum);
  const Vector sink_reference = hn::IfThenElse(plain, zero, sink);
  const Vector sink_sum = hn::IfThenElse(plain, plain_sum, one);
  if (!panel.started) std::fill_n(panel.o, d_v_ * kWidth, 0.0F);
  panel.started = true;
  for (int c = 0; c < panel.vectors; ++c) {
    const int64_t at = int64_t{c} * kLanes;
    const Vector m = hn::LoadU(kFloats, panel.reference + at);
    const Vector most = hn::IfThenElse(hn::Gt(sink_reference, m), sink_reference, m);
    const Vector scale = hn::IfThenElse(hn::Eq(m, most), one, exp2(hn::Sub(m, most)));
    const Vector sink_scale = hn::IfThenElse(hn::Eq(sink_reference, most), one, exp2(hn::Sub(sink_reference, most)));
    const Vector sum = hn::LoadU(kFloats, panel.sum + at);
    hn::StoreU(most, kFloats, panel.reference + at);
    hn::StoreU(hn::MulAdd(sink_sum, sink_scale, hn::Mul(sum, scale)), kFloats, panel.sum + at);
    if (hn::AllTrue(kFloats, hn::Eq(scale, one))) continue;
    for (int64_t d = 0; d < d_v_; ++d) {
      float* const o = panel.o + d * kWidth + at;
      hn::StoreU(hn::Mul(hn::LoadU(kFloats, o), scale), kFloats, o);
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
