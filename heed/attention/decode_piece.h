// One piece in the decode kernel, without score options: scores, weights, products, and the check of the shift. For
// decode_kernel.cpp only.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "heed/attention/decode_rows.h"
#include "heed/attention/softmax_state.h"
#include "heed/attention/visible_keys.h"
#include "heed/core/memory.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Calls visit.operator()<C>(at) for tiles of up to `most` vectors, each inside a panel, until the elements [begin, end)
// of a row are covered. Most pieces have only full tiles: these get a loop of their own, without a branch on the width.
template <int most, class Visit>
HWY_INLINE void for_each_tile(const KvLayout& layout, int64_t begin, int64_t end, Visit visit) {
  constexpr int64_t kWhole = int64_t{most} * kLanes;
  int64_t at = begin / kLanes * kLanes;
  if (at % kWhole == 0 && layout.panel() % kWhole == 0) {
    for (; at + kWhole <= end; at += kWhole) visit.template operator()<most>(at);
  }
  while (at < end) {
    const int64_t until = std::min(end, layout.panel_end(at));
    const int vectors = static_cast<int>(std::min<int64_t>(most, divide_up<int64_t>(until - at, kLanes)));
    with_count<most>(vectors, [&]<int C>() HWY_ATTR { visit.template operator()<C>(at); });
    at += int64_t{vectors} * kLanes;
  }
}

// Steps of a tile between two vectors of weights: a compile-time constant, small enough to spread the weights evenly.
inline constexpr int64_t kStepsOfPart = 16;

// 1. Scores of the keys that any row sees, in whole vectors, with the chains of forward.
template <int R, class Element>
void DecodeRows::score(const RowGroup& group, const Element* k, LinesAhead& ahead) {
  for_each_tile<kStreamVectors<R, Element>>(
      layout_, group.begin, group.end, [&]<int C>(int64_t key) HWY_ATTR __attribute__((always_inline)) {
        score_tile<R, C>(group, key, k + layout_.k_at(key, 0), ahead);
      });
}

// If rows share the keys, the weights of a tile's keys are computed while the next tile is accumulated.
template <int R, int C, class Element>
HWY_INLINE void DecodeRows::score_tile(const RowGroup& group, int64_t key, const Element* k, LinesAhead& ahead) {
  const auto nothing = [](int64_t) HWY_ATTR {};
  const int64_t q_step = round_up<int64_t>(layout_.d_k, kUnit);
  const float* const q = q_ + group.first * q_step;
  Stream<Element> stream{k, layout_.panel()};
  for (int64_t begin = 0; begin < layout_.d_k; begin += kChainWidths) {
    const int64_t end = std::min(begin + kChainWidths, layout_.d_k);
    RegisterTile<R, C> tile;
    tile.set_zero();
    int64_t d = begin;
    for (; kWeighsWithin<R> && d + kStepsOfPart <= end; d += kStepsOfPart) {
      accumulate_stream(tile, q + d, q_step, stream, std::integral_constant<int64_t, kStepsOfPart>{}, ahead, nothing);
      if (weighed_ < key) weigh_keys<R>(group);
    }
    accumulate_stream(tile, q + d, q_step, stream, end - d, ahead, nothing);
    if (begin == 0) {
      store_stream<Element>(tile, scores_ + key, kPageKeys);
      continue;
    }
    HWY_ALIGN float sums[R * C * kLanes];
    store_stream<Element>(tile, sums, C * kLanes);
    tile.load(sums, C * kLanes);
    tile.add_to(scores_ + key, kPageKeys);
  }
}

// 1. Weights of the next vector of keys: 256^(score - shift of the row), 0 where hidden.
template <int R>
HWY_INLINE void DecodeRows::weigh_keys(const RowGroup& group) {
  const int64_t key = weighed_;
  const bool all_visible = group.all_from <= key && key + kLanes <= group.all_to;
  const float* const scores = scores_ + key;
  float* const weights = weights_ + key;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    const Vector score = hn::LoadU(kFloats, scores + r * kPageKeys);
    Vector weight = exp256(hn::Sub(score, hn::Set(kFloats, piece_result(r)[0])));
    if (HWY_UNLIKELY(!all_visible)) {
      weight = hn::IfThenElseZero(keys_in_interval(key, group.from[r], group.to[r]), weight);
    }
    hn::StoreU(weight, kFloats, weights + r * kPageKeys);
  }
  weighed_ = key + kLanes;
}

// 2. o = weights · v, one chain over the keys per element.
template <int R, class Element>
void DecodeRows::multiply(const RowGroup& group, const Element* v, LinesAhead& ahead) {
  for_each_tile<kStreamVectors<R, Element>>(
      layout_, 0, layout_.d_v, [&]<int C>(int64_t d) HWY_ATTR __attribute__((always_inline)) {
        Stream<Element> stream{v + layout_.v_at(group.begin, d), layout_.v_panel(d)};
        RegisterTile<R, C> tile;
        tile.set_zero();
        if (d == 0) {
          multiply_and_sum(group, tile, stream, ahead);
        } else {
          accumulate_stream(tile, weights_ + group.begin, kPageKeys, stream, group.end - group.begin, ahead,
                            [](int64_t) HWY_ATTR {});
        }
        store_stream<Element>(tile, piece_ + kPieceResultHead + d, piece_result_floats(layout_));
      });
}

// The first tile of v, overlapped with the weights that are still missing and the sum of all weights, also one chain.
template <int R, int C, class Element>
HWY_INLINE void DecodeRows::multiply_and_sum(const RowGroup& group, RegisterTile<R, C>& tile, Stream<Element>& stream,
                                             LinesAhead& ahead) {
  Vector sum[R];
  for (int r = 0; r < R; ++r) sum[r] = hn::Zero(kFloats);
  int64_t key = group.begin;
  const auto multiply_keys = [&](auto keys) HWY_ATTR __attribute__((always_inline)) {
    const float* const weights = weights_ + key;
    accumulate_stream(tile, weights, kPageKeys, stream, keys, ahead, [&](int64_t i) HWY_ATTR {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r] = hn::Add(sum[r], hn::Set(kFloats, weights[r * kPageKeys + i]));
    });
    key += keys;
  };
  if (kWeighsWithin<R> && key % kLanes == 0) {
    while (weighed_ < group.end && key + kLanes <= group.end) {
      if (weighed_ == key) weigh_keys<R>(group);
      multiply_keys(std::integral_constant<int64_t, kLanes>{});
    }
  }
  while (weighed_ < group.end) weigh_keys<R>(group);
  multiply_keys(group.end - key);
  for (int r = 0; r < R; ++r) piece_result(r)[1] = hn::GetLane(sum[r]);
}

// 3. True if shift 0 is valid for every row that sees a key of this piece.
template <int R>
bool DecodeRows::sums_in_range(const RowGroup& group) const {
  bool all = true;
  for (int r = 0; r < R; ++r) {
    const float sum = piece_result(r)[1];
    all = all && (group.from[r] >= group.to[r] || in_range(sum));
  }
  return all;
}

// 3, rarely: sets the shift of the rows whose sum was out of range to the true maximum. The others keep their bits.
template <int R>
void DecodeRows::use_true_maximum(const RowGroup& group) {
  for (int r = 0; r < R; ++r) {
    float* result = piece_result(r);
    if (in_range(result[1])) continue;
    result[0] = -std::numeric_limits<float>::infinity();
    for (int64_t key = group.from[r]; key < group.to[r]; ++key) {
      result[0] = std::max(result[0], scores_[r * kPageKeys + key]);  // ignores NaN
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
