// What the decode kernel does for score options: passes over the stored scores of a piece, the row's shift found
// before its weights, and the sink at the end. The arithmetic of an element is that of the forward kernel. For
// decode_kernel.cpp only.
#pragma once

#include <algorithm>
#include <limits>

#include "heed/attention/decode_rows.h"
#include "heed/attention/score_passes.h"
#include "heed/attention/softmax_state.h"
#include "heed/attention/visible_keys.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Passes 1 to 3 from the plain scores on; the careful modes, in which the group is one row, without options too.
template <int R, class Element>
void DecodeRows::compute_with_options(const RowGroup& group, const Element* v, LinesAhead& ahead, RowMode mode) {
  const bool drops = job_.scores.dropout != nullptr;
  float shift[R];
  float sum[R] = {};
  for (int r = 0; r < R; ++r) {
    change_scores(group, r);
    shift[r] = find_shift(group, r, mode);
    weigh_row(group, r, shift[r], mode);
  }
  if (drops) {
    sum_weights<R>(group, 0, sum);
    for (int r = 0; r < R; ++r) drop_weights(group, r);
  }
  mode == RowMode::fast ? multiply<R>(group, v, ahead) : multiply_visible(group, v);
  for (int r = 0; r < R; ++r) {
    piece_result(r)[0] = shift[r];
    if (drops) piece_result(r)[1] = sum[r];  // of the weights as they were before
  }
}

// 1. Cap and biases of a row, in whole vectors, and which keys -∞ in the dense bias hides. Of that nothing is read past
// the last key that a row sees.
inline void DecodeRows::change_scores(const RowGroup& group, int r) {
  const ScoreJob& job = job_.scores;
  const int64_t row = group.first + r;
  const int64_t first = group.begin / kLanes * kLanes;
  const auto vectors = static_cast<int>(divide_up<int64_t>(group.end - first, kLanes));
  const ScorePlace place{item_.n, head_of(row), query_of(row), group.piece * kPageKeys + first};
  const float* const from =
      shown_ == nullptr ? nullptr : job.bias_row(place.b, place.head, place.q, group.piece * kPageKeys);
  const auto bias_of = [&](int64_t, int c) HWY_ATTR {
    const int64_t key = first + c * kLanes;
    HWY_ALIGN float last[kLanes] = {};
    const bool whole = key + kLanes <= group.end;
    if (!whole) std::copy(from + key, from + group.end, last);
    const Vector bias = whole ? hn::LoadU(kFloats, from + key) : hn::Load(kFloats, last);
    const auto hidden = hn::Eq(bias, hn::Set(kFloats, -std::numeric_limits<float>::infinity()));
    hn::StoreU(hn::IfThenZeroElse(hidden, hn::Set(kFloats, 1.0F)), kFloats, shown_ + r * kPageKeys + key);
    return bias;
  };
  apply_with_keys_in_lanes(
      job, place, {scores_ + r * kPageKeys + first, kPageKeys, 1, vectors}, [](int64_t, int, Vector) HWY_ATTR {},
      bias_of);
}

// Which of the keys from `key` on the row r sees.
HWY_INLINE hn::Mask<FloatTag> DecodeRows::visible(const RowGroup& group, int r, int64_t key) const {
  const auto in_piece = keys_in_interval(key, group.from[r], group.to[r]);
  if (shown_ == nullptr) return in_piece;
  return hn::And(in_piece, hn::Ne(hn::LoadU(kFloats, shown_ + r * kPageKeys + key), hn::Zero(kFloats)));
}

// 3. The shift by the rule, -∞ for a row that sees no key: mostly told by the largest score, else by the sum.
inline float DecodeRows::find_shift(const RowGroup& group, int r, RowMode mode) {
  if (job_.scores.sigmoid) return 0.0F;
  const float* const scores = scores_ + r * kPageKeys;
  if (mode == RowMode::true_maximum) {
    // In the order of the keys, which tells 0 from -0.
    float most = -std::numeric_limits<float>::infinity();
    for (int64_t key = group.from[r]; key < group.to[r]; ++key) {
      const bool hidden = shown_ != nullptr && shown_[r * kPageKeys + key] == 0.0F;
      if (!hidden && scores[key] > most) most = scores[key];
    }
    return most;
  }
  Vector largest = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  for (int64_t key = group.begin / kLanes * kLanes; key < group.end; key += kLanes) {
    const Vector score = hn::LoadU(kFloats, scores + key);
    largest = hn::IfThenElse(hn::And(visible(group, r, key), hn::Gt(score, largest)), score, largest);
  }
  const float most = hn::GetLane(hn::MaxOfLanes(kFloats, largest));
  if (most >= kLeastInside && most <= kMostInside) return 0.0F;
  if (most < kLeastOutside || most > kMostOutside) return most;
  weigh_row(group, r, 0.0F, mode);
  float sum;
  sum_weights<1>(group, r, &sum);
  return in_range(sum) ? 0.0F : most;
}

// 1. Weights of a row, 0 where hidden.
inline void DecodeRows::weigh_row(const RowGroup& group, int r, float shift, RowMode mode) {
  const ScoreJob& job = job_.scores;
  const bool headroom = mode == RowMode::true_maximum;
  for (int64_t key = group.begin / kLanes * kLanes; key < group.end; key += kLanes) {
    const Vector score = hn::LoadU(kFloats, scores_ + r * kPageKeys + key);
    const Vector difference = hn::Sub(score, hn::Set(kFloats, shift));
    Vector weight = job.has_options ? weight_of(job, difference) : exp256(difference);
    if (HWY_UNLIKELY(headroom)) weight = hn::Mul(weight, hn::Set(kFloats, kHeadroom));
    hn::StoreU(hn::IfThenElseZero(visible(group, r, key), weight), kFloats, weights_ + r * kPageKeys + key);
  }
}

// The sums of R rows from `first` on, key by key, as multiply() has them.
template <int R>
void DecodeRows::sum_weights(const RowGroup& group, int first, float* sum) const {
  float chain[R] = {};
  for (int64_t key = group.begin; key < group.end; ++key) {
    for (int r = 0; r < R; ++r) chain[r] += weights_[(first + r) * kPageKeys + key];
  }
  std::copy_n(chain, R, sum);
}

// Weights times 0 or 1, after their sum was taken. 1 / (1 - p) comes at the end, with 1 / sum.
inline void DecodeRows::drop_weights(const RowGroup& group, int r) {
  const Dropout& dropout = *job_.scores.dropout;
  const int64_t query = job_.scores.query_number(item_.n, query_of(group.first + r));
  const DropoutRow row = dropout_row(dropout_head(dropout, item_.n, head_of(group.first + r)), query);
  const int32_t threshold = dropout_threshold(dropout);
  for (int64_t key = group.begin / kLanes * kLanes; key < group.end; key += kLanes) {
    float* const at = weights_ + r * kPageKeys + key;
    const Vector keep = kept_keys(row, static_cast<uint32_t>(group.piece * kPageKeys + key), threshold);
    hn::StoreU(hn::Mul(hn::LoadU(kFloats, at), keep), kFloats, at);
  }
}

// 2, rarely: the chains of multiply() for the group's only row, without the keys that it does not see.
template <class Element>
void DecodeRows::multiply_visible(const RowGroup& group, const Element* v) {
  const auto hidden = [&](int64_t key) { return shown_ != nullptr && shown_[key] == 0.0F; };
  float* const result = piece_result(0);
  sum_weights<1>(group, 0, result + 1);
  for (int64_t d = 0; d < layout_.d_v; d += kLanes) {
    Vector o = hn::Zero(kFloats);
    for (int64_t key = group.from[0]; key < group.to[0]; ++key) {
      if (hidden(key)) continue;
      o = hn::MulAdd(hn::Set(kFloats, weights_[key]), load_vector(v + layout_.v_at(key, d)), o);
    }
    hn::StoreU(o, kFloats, result + kPieceResultHead + d);
  }
}

// 4. What remains when all pieces are merged.
inline void DecodeRows::finish_state(int64_t row, RowMode mode) {
  if (job_.scores.sinks.data() != nullptr) merge_sink(row, mode);
  if (!job_.scores.sigmoid) return;
  shift_[row] = 0.0F;
  sum_[row] = 1.0F;
}

// The sink, merged last.
inline void DecodeRows::merge_sink(int64_t row, RowMode mode) {
  const Sink sink = sink_of(job_.scores, head_of(row), mode);
  if (sink.is_none) return;
  Vector shift = hn::Set(kFloats, shift_[row]);
  Vector sum = hn::Set(kFloats, sum_[row]);
  const Vector scale = add_sink(sink, shift, sum);
  shift_[row] = hn::GetLane(shift);
  sum_[row] = hn::GetLane(sum);
  float* const o = o_ + row * layout_.v_step;
  for (int64_t d = 0; d < layout_.d_v; d += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(kFloats, o + d), scale), kFloats, o + d);
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
