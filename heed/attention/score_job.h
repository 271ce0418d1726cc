// Score options in the form the kernels use: in base 256, with position biases laid out by distance. Prepared once per
// call. Internal to heed/attention.
#pragma once

#include "heed/attention/problem.h"
#include "heed/attention/score_options.h"
#include "heed/core/arena.h"

namespace heed {

// Which index of a pair runs along the lanes of a score tile: queries in forward, keys in backward and decode.
enum class ScoreLanes { queries, keys };

// Lanes past the last query or key are read but not used: lists of distances are padded by the widest panel at both
// ends.
inline constexpr int64_t kScoreMargin = 64;

// ALiBi and the relative table combined. Both depend only on the distance of a pair, so for each head one list over all
// distances holds log256 e · (table - slope · |distance|), rounded once. O(Tq + Tk) memory. Queries are identified by
// ScoreJob::query_number().
struct PositionBias {
  const float* values = nullptr;     // [items or 1][H][length]; null: none
  const int32_t* buckets = nullptr;  // [items or 1][length]: the bucket of each distance; null without a table
  int64_t heads = 0;
  int64_t length = 0;
  int64_t first = 0;     // index of the pair (query 0, key 0) in the list
  bool by_item = false;  // items have different offsets
  ScoreLanes lanes = ScoreLanes::queries;

  // The index of the pair of query q and key k. The next lane is one further, the next row one back.
  int64_t at(int64_t q, int64_t k) const { return first + (lanes == ScoreLanes::queries ? q - k : k - q); }
  // Its bias in base 256.
  const float* of(int64_t b, int64_t head, int64_t q, int64_t k) const {
    return values + ((by_item ? b : 0) * heads + head) * length + at(q, k);
  }
  const int32_t* buckets_of(int64_t b) const {
    return buckets == nullptr ? nullptr : buckets + (by_item ? b : 0) * length;
  }
};

struct ScoreJob {
  bool has_options = false;  // an option other than sinks is set: every tile goes through the option passes
  bool sigmoid = false;
  bool wide_range = false;  // softmax with biases that may move scores to where shift 0 would over- or underflow
  float cap = 0.0F;         // cap · log256 e; 0: none
  float inverse_cap = 0.0F;
  // Weights whose score minus shift is below this are 0. ALiBi spreads scores evenly down to any depth, and products of
  // weights near 2^-126 are denormal, which is a hundred times slower. Below 2^-100 a weight is negligible beside its
  // row's sum. With
  // sigmoid the sum is always 1, and with a sink it is not the keys' alone: there only weights below 2^-126 are 0.
  float least_score = -100.0F / kScoreBits;
  PositionBias positions;
  View<const float, 4> bias;   // null: none
  View<const float, 1> sinks;  // null: none
  const Dropout* dropout = nullptr;
  float kept_scale = 1.0F;                 // 1 / (1 - p)
  const int64_t* first_queries = nullptr;  // [B]: in decode, the position of query 0 of each item; null: 0

  // The number by which dropout and position biases identify query q of item b: its index in the call or, in decode,
  // its position.
  int64_t query_number(int64_t b, int64_t q) const { return first_queries == nullptr ? q : first_queries[b] + q; }

  // The sink of a head in base 256, rounded as every bias is.
  float sink(int64_t head) const { return sinks(head) * static_cast<float>(kLog256E); }

  // The dense bias of query q, from key k on.
  const float* bias_row(int64_t b, int64_t head, int64_t q, int64_t k) const {
    return &bias(bias.size(0) == 1 ? 0 : b, bias.size(1) == 1 ? 0 : head, q, k);
  }
};

// Lays out the position biases in the arena. The job points into `options` and the arena.
ScoreJob score_job(const Problem& problem, const AttentionOptions& options, ScoreLanes lanes, Arena& arena);

// Bounds over the queries and keys of all items of a decode call.
struct DecodePositions {
  int64_t heads = 0;
  int64_t before = 0;  // every query position - key position is below this,
  int64_t after = 0;   // and every key - query below this
  const int64_t* first_queries = nullptr;
};

// The same for decode: one list of distances serves all items, regardless of their lengths.
ScoreJob score_job(const DecodePositions& call, const ScoreOptions& scores, ScoreLanes lanes, Arena& arena);

}  // namespace heed
