// Score options as the kernels take them: in base 256, with the biases of positions laid out by distance. Prepared once
// a call. Internal to heed/attention.
#pragma once

#include "heed/attention/problem.h"
#include "heed/attention/score_options.h"
#include "heed/core/arena.h"

namespace heed {

// Which index of a pair runs along the lanes of a tile of scores: queries in forward, keys in backward and decode.
enum class ScoreLanes { queries, keys };

// Lanes past the last query or key are read, not used: lists of distances are longer by the widest panel at both ends.
inline constexpr int64_t kScoreMargin = 64;

// ALiBi and the relative table together: both depend on the distance of a pair alone, so for each head one list over
// all distances holds log256 e · (table - slope · |distance|), rounded once. O(Tq + Tk) memory. Queries are given by
// their number, ScoreJob::query_number().
struct PositionBias {
  const float* values = nullptr;     // [items or 1][H][length]; null: none
  const int32_t* buckets = nullptr;  // [items or 1][length]: the bucket of each distance; null without a table
  int64_t heads = 0;
  int64_t length = 0;
  int64_t first = 0;     // where the pair (query 0, key 0) stands in the list
  bool by_item = false;  // items differ in their offset
  ScoreLanes lanes = ScoreLanes::queries;

  // Where the pair of query q and key k stands. The next lane stands one further on, the next row one before.
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
  bool has_options = false;  // an option besides sinks is set: every tile goes through the option passes
  bool sigmoid = false;
  bool wide_range = false;  // biases may move the scores of a softmax to where a shift of 0 would overflow or underflow
  float cap = 0.0F;         // cap · log256 e; 0: none
  float inverse_cap = 0.0F;
  // Weights whose score, less the shift, is below this are 0. ALiBi spreads scores evenly down to any depth, and
  // products of weights near 2^-126 are denormal, which takes the processor a hundred times as long: below 2^-100 a
  // weight counts for nothing beside its row's sum. By sigmoid the sum is 1 whatever the keys, and with a sink it is
  // not the keys' alone: there only what is below 2^-126 is 0.
  float least_score = -100.0F / kScoreBits;
  PositionBias positions;
  View<const float, 4> bias;   // null: none
  View<const float, 1> sinks;  // null: none
  const Dropout* dropout = nullptr;
  float kept_scale = 1.0F;                 // 1 / (1 - p)
  const int64_t* first_queries = nullptr;  // [B]: decode's positions of query 0 of each item; null: 0

  // The number of query q of item b, by which dropout and position biases know it: its index in the call, or, in
  // decode, its position.
  int64_t query_number(int64_t b, int64_t q) const { return first_queries == nullptr ? q : first_queries[b] + q; }

  // The sink of a head in base 256, rounded as every bias is.
  float sink(int64_t head) const { return sinks(head) * static_cast<float>(kLog256E); }

  // The row of the dense bias of query q, from key k on.
  const float* bias_row(int64_t b, int64_t head, int64_t q, int64_t k) const {
    return &bias(bias.size(0) == 1 ? 0 : b, bias.size(1) == 1 ? 0 : head, q, k);
  }
};

// Lays out the position biases in memory of the arena. The job points into `options` and that memory.
ScoreJob score_job(const Problem& problem, const AttentionOptions& options, ScoreLanes lanes, Arena& arena);

// What decode knows of the queries and keys of all items together.
struct DecodePositions {
  int64_t heads = 0;
  int64_t before = 0;  // every query - key, by position, lies below this,
  int64_t after = 0;   // and every key - query below this
  const int64_t* first_queries = nullptr;
};

// The same for decode: one list of distances serves all items, whatever their lengths.
ScoreJob score_job(const DecodePositions& call, const ScoreOptions& scores, ScoreLanes lanes, Arena& arena);

}  // namespace heed
