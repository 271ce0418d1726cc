// The passes of the score options over a tile of scores in base 256 (q times scale · log256 e), the same arithmetic for
// an element whatever is in the lanes: queries in forward and insight, keys in backward and decode. In this order:
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
#include "heed/ops/dropout_vector.h"
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

// The dense bias joins a score: the product rounded, then the sum.
HWY_INLINE Vector add_scaled(Vector score, Vector bias) {
  return hn::Add(score, hn::Mul(bias, hn::Set(kFloats, static_cast<float>(kLog256E))));
}

// Where the first row and lane of a tile stand.
struct ScorePlace {
  int64_t b = 0;
  int64_t head = 0;
  int64_t q = 0;
  int64_t key = 0;
};

// All passes, in their order. capped(row, c, score) is told each vector of capped scores, where there is a cap;
// add_bias() adds the dense bias, where there is one.
template <class Capped, class AddBias>
HWY_INLINE void apply_passes(const ScoreJob& job, const ScorePlace& place, const ScoreTile& tile, Capped capped,
                             AddBias add_bias) {
  if (job.cap != 0.0F) {
    transform(tile, [&](int64_t row, int c, Vector score) HWY_ATTR {
      const Vector value = cap_score(job, score);
      capped(row, c, value);
      return value;
    });
  }
  if (job.positions.values != nullptr) {
    add_position_bias(job.positions.of(place.b, place.head, job.query_number(place.b, place.q), place.key), tile);
  }
  if (job.bias.data() != nullptr) add_bias();
}

// The passes with keys in lanes, as backward and decode have them. bias(row, c) is a vector of the dense bias.
template <class Capped, class Bias>
HWY_INLINE void apply_with_keys_in_lanes(const ScoreJob& job, const ScorePlace& place, const ScoreTile& tile,
                                         Capped capped, Bias bias) {
  apply_passes(job, place, tile, capped, [&]() HWY_ATTR {
    transform(tile, [&](int64_t row, int c, Vector score) HWY_ATTR { return add_scaled(score, bias(row, c)); });
  });
}

// Adds the dense bias, brought into lanes, to a tile of one vector of queries. Does it hide a key by -∞?
inline bool add_bias_of_queries(const ScoreJob& job, const ScorePlace& place, int64_t queries, const ScoreTile& tile) {
  queries = std::min<int64_t>(queries, kLanes);
  const int64_t step = job.bias.stride(2);
  const float* const from = job.bias_row(place.b, place.head, place.q, place.key);
  Vector least = hn::Zero(kFloats);
  const auto add = [&](int64_t row, Vector bias) HWY_ATTR {
    float* const at = tile.scores + row * tile.step;
    least = hn::Min(bias, least);  // in this order NaN leaves `least` as it is
    hn::StoreU(add_scaled(hn::LoadU(kFloats, at), bias), kFloats, at);
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

// The passes with queries in lanes, as forward and insight have them; lanes past `queries` are padding. Does the dense
// bias hide a key by -∞?
HWY_INLINE bool apply_with_queries_in_lanes(const ScoreJob& job, const ScorePlace& place, int64_t queries,
                                            const ScoreTile& tile) {
  bool hides = false;
  const auto capped = [](int64_t, int, Vector) HWY_ATTR {};
  apply_passes(job, place, tile, capped, [&]() HWY_ATTR {
    for (int c = 0; c < tile.vectors; ++c) {
      const int64_t lane = int64_t{c} * kLanes;
      hides = add_bias_of_queries(job, {place.b, place.head, place.q + lane, place.key}, queries - lane,
                                  {tile.scores + lane, tile.step, tile.rows, 1}) ||
              hides;
    }
  });
  return hides;
}

// A weight from its score less the shift; 0 below the job's least score.
HWY_INLINE Vector weight_of(const ScoreJob& job, Vector score) {
  const Vector weight = job.sigmoid ? sigmoid_base256(score) : exp256(score);
  return hn::IfThenZeroElse(hn::Lt(score, hn::Set(kFloats, job.least_score)), weight);
}

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

// 1 for a weight that is kept, 0 for one that is dropped, for one row, with the keys from `first_key` on in lanes.
HWY_INLINE Vector kept_keys(const DropoutRow& row, uint32_t first_key, int32_t threshold) {
  const DropoutVector keys = hn::Iota(kDropoutWords, first_key);
  return kept(hn::Set(kDropoutWords, row.first), hn::Set(kDropoutWords, row.second),
              hn::Mul(keys, hn::Set(kDropoutWords, kDropoutElementStep)), threshold);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
