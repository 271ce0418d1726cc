// The passes of the score options over a tile of scores in base 256 (q times scale · log256 e), the same arithmetic for
// an element whatever is in the lanes: queries in forward, keys in backward and decode. In this order:
//
//     score = cap · tanh(score / cap)          cap in base 256, times its rounded inverse
//     score = score + position bias            ALiBi and relative table, laid out by distance (score_job.h)
//     score = score + bias · log256 e          the product rounded, then the sum
//
// No finite score or bias overflows on the way (heed/simd/base256.h). Then weights are 256^(score - shift), or
// 1 / (1 + 256^-score) with sigmoid, and dropout multiplies them by 0 or 1.
// Kernel sources only.
#pragma once

#include <algorithm>
#include <limits>

#include "heed/attention/dropout.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/score_job.h"
#include "heed/attention/softmax_state.h"
#include "heed/simd/math.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// `rows` rows of `vectors` vectors of scores.
struct ScoreTile {
  float* scores = nullptr;
  int64_t step = 0;  // floats from a row to the next
  int64_t rows = 0;
  int vectors = 0;
};

// score(row, c) = f(row, c, score) for every vector of the tile.
template <class F>
HWY_INLINE void transform(const ScoreTile& tile, F f) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int c = 0; c < tile.vectors; ++c) {
      float* const at = tile.scores + row * tile.step + c * kLanes;
      hn::StoreU(f(row, c, hn::LoadU(kFloats, at)), kFloats, at);
    }
  }
}

// cap · tanh(score / cap). Scores are mostly far below the cap, where tanh is a short polynomial: the long way is taken
// only where a lane needs it, with the same bits.
HWY_INLINE Vector cap_score(const ScoreJob& job, Vector score) {
  const Vector x = hn::Mul(score, hn::Set(kFloats, job.inverse_cap));
  const bool small = hn::AllTrue(kFloats, hn::Lt(hn::Abs(x), hn::Set(kFloats, kSmallTanh)));
  return hn::Mul(hn::Set(kFloats, job.cap), HWY_LIKELY(small) ? small_tanh(x) : tanh(x));
}

HWY_INLINE void cap_scores(const ScoreJob& job, const ScoreTile& tile) {
  transform(tile, [&](int64_t, int, Vector score) HWY_ATTR { return cap_score(job, score); });
}

// `from` is PositionBias::of() the pair in the tile's first row and lane.
HWY_INLINE void add_position_bias(const float* from, const ScoreTile& tile) {
  transform(tile, [=](int64_t row, int c, Vector score)
                      HWY_ATTR { return hn::Add(score, hn::LoadU(kFloats, from - row + c * kLanes)); });
}

// The derivative of the cap, 1 - tanh², from the capped score.
HWY_INLINE Vector cap_slope(const ScoreJob& job, Vector capped) {
  const Vector share = hn::Mul(capped, hn::Set(kFloats, job.inverse_cap));
  return hn::NegMulAdd(share, share, hn::Set(kFloats, 1.0F));
}

HWY_INLINE Vector scaled_bias(Vector bias) { return hn::Mul(bias, hn::Set(kFloats, static_cast<float>(kLog256E))); }

// A tile of scores with queries in lanes, as forward and insight have it: where its first lane and row stand.
struct QueryLanes {
  int64_t b = 0;
  int64_t head = 0;
  int64_t q = 0;
  int64_t key = 0;
  int64_t queries = 0;  // lanes past them are padding
};

// Adds the dense bias, brought into lanes, to a tile of one vector. Does it hide a key by -∞?
inline bool add_bias(const ScoreJob& job, const QueryLanes& place, const ScoreTile& tile) {
  const int64_t queries = std::min<int64_t>(place.queries, kLanes);
  const int64_t step = job.bias.stride(2);
  const float* const from = job.bias_row(place.b, place.head, place.q, place.key);
  Vector least = hn::Zero(kFloats);
  const auto add = [&](int64_t row, Vector bias) HWY_ATTR {
    float* const at = tile.scores + row * tile.step;
    least = hn::Min(bias, least);  // in this order NaN leaves `least` as it is
    hn::StoreU(hn::Add(hn::LoadU(kFloats, at), scaled_bias(bias)), kFloats, at);
  };
  int64_t row = 0;
  for (; queries == kLanes && row + 4 <= tile.rows; row += 4) {
    Vector bias[4];
    for (int i = 0; i < 4; ++i) bias[i] = load_blocks(from + row + i * step, 4 * step);
    transpose_blocks(bias[0], bias[1], bias[2], bias[3]);
    for (int i = 0; i < 4; ++i) add(row + i, bias[i]);
  }
  for (; row < tile.rows; ++row) {
    HWY_ALIGN float lanes[kLanes] = {};
    for (int64_t i = 0; i < queries; ++i) lanes[i] = from[i * step + row];
    add(row, hn::Load(kFloats, lanes));
  }
  return !hn::AllFalse(kFloats, hn::Eq(least, hn::Set(kFloats, -std::numeric_limits<float>::infinity())));
}

// All passes over a tile with queries in lanes. Does the dense bias hide a key by -∞?
HWY_INLINE bool apply_options(const ScoreJob& job, const QueryLanes& place, const ScoreTile& tile) {
  if (job.cap != 0.0F) cap_scores(job, tile);
  if (job.positions.values != nullptr) {
    add_position_bias(job.positions.of(place.b, place.head, job.query_number(place.b, place.q), place.key), tile);
  }
  bool hides = false;
  for (int c = 0; c < tile.vectors && job.bias.data() != nullptr; ++c) {
    const int64_t lane = int64_t{c} * kLanes;
    hides = add_bias(job, {place.b, place.head, place.q + lane, place.key, place.queries - lane},
                     {tile.scores + lane, tile.step, tile.rows, 1}) ||
            hides;
  }
  return hides;
}

// A weight from its score less the shift; 0 below the job's least score.
HWY_INLINE Vector weight_of(const ScoreJob& job, Vector score) {
  const Vector weight = job.sigmoid ? sigmoid_base256(score) : exp256(score);
  return hn::IfThenZeroElse(hn::Lt(score, hn::Set(kFloats, job.least_score)), weight);
}

// Lanes whose sum lets the piece keep the shift 0. NaN and ∞ are not in range.
HWY_INLINE hn::Mask<FloatTag> in_range(Vector sum) {
  return hn::And(hn::Ge(sum, hn::Set(kFloats, kLeastSum)), hn::Le(sum, hn::Set(kFloats, kMostSum)));
}

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
  const Vector sink = scaled_bias(hn::Set(kFloats, job.sinks(head)));
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
  sum = hn::MulAdd(sink.sum, scale.added, hn::Mul(sum, scale.old));
  return scale.old;
}

// What o is multiplied by at the end: 1 / sum, 0 where no key was seen; 1 with sigmoid; times 1 / (1 - p).
HWY_INLINE Vector output_factor(const ScoreJob& job, Vector sum) {
  const Vector scale = hn::Set(kFloats, job.kept_scale);
  if (job.sigmoid) return scale;
  return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(kFloats)), hn::Div(scale, sum));
}

using DropoutTag = hn::RebindToUnsigned<FloatTag>;
using DropoutVector = hn::Vec<DropoutTag>;
inline constexpr DropoutTag kDropoutWords{};

// The words of the rows of `count` queries from q on: words[i] and words[count + i] for query q + i.
inline void set_dropout_words(const Dropout& dropout, int64_t b, int64_t head, int64_t q, int64_t count,
                              uint32_t* words) {
  const Rng rng = dropout_head(dropout, b, head);
  for (int64_t i = 0; i < count; ++i) {
    const DropoutRow row = dropout_row(rng, q + i);
    words[i] = row.first;
    words[count + i] = row.second;
  }
}

// dropout_bits() in lanes: the two words of each lane's row, and its key times kDropoutKeyStep. 1 for a weight that is
// kept, 0 for one that is dropped.
HWY_INLINE Vector kept(DropoutVector first, DropoutVector second, DropoutVector key_step, int32_t threshold) {
  const hn::RebindToSigned<FloatTag> numbers;
  DropoutVector x = hn::Add(first, key_step);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(kDropoutWords, kDropoutFirstRound));
  x = hn::Xor(x, second);
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<13>(x)), hn::Set(kDropoutWords, kDropoutSecondRound));
  x = hn::ShiftRight<8>(hn::Xor(x, hn::ShiftRight<16>(x)));
  const auto dropped = hn::Lt(hn::BitCast(numbers, x), hn::Set(numbers, threshold));
  return hn::IfThenZeroElse(hn::RebindMask(kFloats, dropped), hn::Set(kFloats, 1.0F));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
