// What the forward kernel does for score options: passes over the stored scores of a piece, and the sink at the end.
// Without options only store_scores() is used, rarely. For forward_kernel.cpp only.
#pragma once

#include "heed/attention/forward_block.h"
#include "heed/attention/score_passes.h"
#include "heed/attention/softmax_state.h"

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
        if (job.bias.data() != nullptr) prefetch_bias(panel, piece, run, key - run.begin, R);
      });
    });
    if (!job.has_options) continue;
    const int64_t lane = int64_t{run.first} * kLanes;
    const ScorePlace place{block_.b, head_, panel.q_begin + lane, block_.segment.k_begin + piece.begin + run.begin};
    const ScoreTile tile{weights_ + run.begin * kWidth + lane, kWidth, run.end - run.begin, run.vectors};
    hides = apply_with_queries_in_lanes(job, place, panel.rows - lane, tile) || hides;
  }
  if (hides) prepare_mask(panel, piece, job.bias_row(block_.b, head_, panel.q_begin, block_.segment.k_begin));
}

// Prefetches the rows of the bias that the run will need, a few with each of its tiles: `keys` keys from `first` on.
inline void ForwardBlock::prefetch_bias(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run,
                                        int64_t first, int64_t keys) const {
  constexpr int64_t kLine = 16;
  const int64_t all = run.end - run.begin;
  const int64_t key = block_.segment.k_begin + piece.begin + run.begin;
  const int64_t lane = int64_t{run.first} * kLanes;
  const int64_t rows = std::min<int64_t>(panel.rows - lane, int64_t{run.vectors} * kLanes);
  for (int64_t row = rows * first / all; row < rows * (first + keys) / all; ++row) {
    const float* const from = job_.scores.bias_row(block_.b, head_, panel.q_begin + lane + row, key);
    for (int64_t i = 0; i < all; i += kLine) __builtin_prefetch(from + i, 0, 2);
  }
}

// Biases may move the scores of whole pieces far from 0. Where the largest score of every query already tells that the
// piece's sum will be in range, or that it cannot be, this sets the shifts by the rule (0, or the largest score),
// and the piece need not be computed twice.
inline bool ForwardBlock::find_shifts(QueryPanel& panel) {
  std::fill_n(piece_shift_, kWidth, -kInfinity);
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun run = mask_.run(i);
    with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR { find_largest<C>(run); });
  }
  bool certain = true;
  bool all_zero = true;
  for (int c = 0; c < panel.vectors; ++c) {
    float* const at = piece_shift_ + c * kLanes;
    const Vector most = hn::LoadU(kFloats, at);
    const auto inside =
        hn::And(hn::Ge(most, hn::Set(kFloats, kLeastInside)), hn::Le(most, hn::Set(kFloats, kMostInside)));
    const auto outside =
        hn::Or(hn::Lt(most, hn::Set(kFloats, kLeastOutside)), hn::Gt(most, hn::Set(kFloats, kMostOutside)));
    const auto unseen = hn::Eq(most, hn::Set(kFloats, -kInfinity));
    certain = certain && hn::AllTrue(kFloats, hn::Or(inside, outside));
    all_zero = all_zero && hn::AllTrue(kFloats, hn::Or(inside, unseen));
    hn::StoreU(hn::IfThenZeroElse(inside, most), kFloats, at);
  }
  if (certain && !all_zero) panel.zero_shifts = false;
  return certain;
}

// The largest visible score of each query in the run, or what piece_shift_ has. NaN is passed over.
template <int C>
void ForwardBlock::find_largest(const KeyRun& run) {
  const PanelMask& mask = mask_;
  float* const largest = piece_shift_ + run.first * kLanes;
  const float* const scores = weights_ + run.first * kLanes;
  Vector most[C];
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) most[c] = hn::LoadU(kFloats, largest + c * kLanes);
  for (int64_t key = run.begin; key < run.end; ++key) {
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      const Vector score = hn::LoadU(kFloats, scores + key * kWidth + c * kLanes);
      const Vector more = hn::Max(score, most[c]);  // in this order NaN leaves the largest as it is
      most[c] = c < run.masked ? hn::IfThenElse(mask.visible(key, run.first + c), more, most[c]) : more;
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < C; ++c) hn::StoreU(most[c], kFloats, largest + c * kLanes);
}

// 1. Weights from the stored scores, 0 where hidden, and their sums, in the order of exponentiate_run(); with the
// shifts in piece_shift_, or all 0.
inline void ForwardBlock::weigh_stored(bool with_shifts) {
  const ScoreJob& job = job_.scores;
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun run = mask_.run(i);
    with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR {
      const PanelMask& mask = mask_;
      float* const sums = piece_sum_ + run.first * kLanes;
      float* const weights = weights_ + run.first * kLanes;
      Vector sum[C];
      Vector shift[C];
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) {
        sum[c] = hn::LoadU(kFloats, sums + c * kLanes);
        shift[c] = hn::Zero(kFloats);
        if (with_shifts) shift[c] = hn::LoadU(kFloats, piece_shift_ + (run.first + c) * kLanes);
      }
      for (int64_t key = run.begin; key < run.end; ++key) {
#pragma GCC unroll 4
        for (int c = 0; c < C; ++c) {
          float* const at = weights + key * kWidth + c * kLanes;
          Vector weight = weight_of(job, hn::Sub(hn::LoadU(kFloats, at), shift[c]));
          if (c < run.masked) weight = hn::IfThenElseZero(mask.visible(key, run.first + c), weight);
          sum[c] = hn::Add(sum[c], weight);
          hn::StoreU(weight, kFloats, at);
        }
      }
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) hn::StoreU(sum[c], kFloats, sums + c * kLanes);
    });
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
        const uint32_t key_step = (first_key + static_cast<uint32_t>(key)) * kDropoutElementStep;
        const Vector keep = kept(first, second, hn::Set(kDropoutWords, key_step), threshold);
        hn::StoreU(hn::Mul(hn::LoadU(kFloats, at), keep), kFloats, at);
      }
    }
  }
}

// What remains when all pieces are merged.
inline void ForwardBlock::finish_states(QueryPanel& panel, RowMode mode) {
  if (job_.scores.sinks.data() != nullptr) merge_sink(panel, mode);
  if (!job_.scores.sigmoid) return;
  std::fill_n(panel.group.shift, kWidth, 0.0F);
  std::fill_n(panel.group.sum, kWidth, 1.0F);
}

// The sink, merged last, as a piece of its own: one key without a value.
inline void ForwardBlock::merge_sink(QueryPanel& panel, RowMode mode) {
  const Sink sink = sink_of(job_.scores, head_, mode);
  if (sink.is_none) return;
  const Vector one = hn::Set(kFloats, 1.0F);
  if (!panel.started) std::fill_n(panel.group.o, d_v_ * kWidth, 0.0F);
  panel.started = true;
  for (int c = 0; c < panel.vectors; ++c) {
    const int64_t at = int64_t{c} * kLanes;
    Vector shift = hn::LoadU(kFloats, panel.group.shift + at);
    Vector sum = hn::LoadU(kFloats, panel.group.sum + at);
    const Vector scale = add_sink(sink, shift, sum);
    hn::StoreU(shift, kFloats, panel.group.shift + at);
    hn::StoreU(sum, kFloats, panel.group.sum + at);
    if (hn::AllTrue(kFloats, hn::Eq(scale, one))) continue;
    for (int64_t d = 0; d < d_v_; ++d) {
      float* const o = panel.group.o + d * kWidth + at;
      hn::StoreU(hn::Mul(hn::LoadU(kFloats, o), scale), kFloats, o);
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
