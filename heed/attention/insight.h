// Insight into attention: any row or tile of any step, what a row attends to and what a key receives, recomputed from
// q, k, v and the row states kept by attention_forward. The fast kernel pays nothing for it, and no Tq × Tk buffer
// exists unless requested.
//
// Scores have the bits that forward used: q times scale · log256 e, rounded once; one chain of multiply-adds over d;
// then the score options. A weight is 256^(score - shift) / sum, with a relative error of at most 4 · 2^-23, and 0 if
// the power is below 2^-126. A sigmoid weight has forward's bits. All results have the same bits for any number of
// threads.
//
// Letters as in attention.h. Calls take the inputs and options of the forward call and the row states that it filled.
#pragma once

#include <cstdint>

#include "heed/attention/attention.h"
#include "heed/attention/step_table.h"

namespace heed {

// The steps from `scores` to `heads` are available (AttentionStep, heed/attention/step_table.h). As the kernels compute
// them:
//     scores   q kᵀ with the unscaled q: one chain per 128 widths
//     scaled   scale · scores as in forward: its base 256 score times ln 256; the next three likewise
//     capped   taken with a soft cap
//     biased   + ALiBi, relative table and dense bias; taken with one of them
//     masked   -∞ where a key is hidden
//     weights  softmax of masked, or sigmoid; 0 where a key is hidden, also in a row that sees no key or sees NaN
//     dropped  weights times 0 or 1 / (1 - p); taken with dropout
//     heads    dropped · v: the bits of forward's out

// True if the step is taken with these options. Requesting one that is not is an Error.
bool takes_step(const ScoreOptions& scores, AttentionStep step);

// The first element of a tile.
struct TilePlace {
  int64_t b = 0;
  int64_t head = 0;
  int64_t q = 0;  // the first query
  int64_t k = 0;  // the first key; 0 for `heads`
};

// A tile of one step → out: [queries, keys], or [queries, Dv] for `heads`. A row is a tile of one query and Tk keys.
// `rows` is only needed for weights and dropped, and not with sigmoid.
void attention_tile(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                    AttentionStep step, const TilePlace& place, View<float, 2> out);

// All weights, before dropout → out [B, H, Tq, Tk].
void attention_weights(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                       View<float, 4> out);

// What the queries q_begin … q_begin + N - 1 of every item and head attend to. Null views are not computed; the others
// have the same N.
struct RowInsight {
  View<float, 3> entropy{};      // [B, H, N]: -Σ weight · ln weight, in nats, including a sink; 0 for a row
                                 // with no visible key; an Error with sigmoid, whose weights are not a distribution
  View<float, 3> largest{};      // [B, H, N]: the largest masked score; -∞ for a row with no visible key
  View<int64_t, 4> top_keys{};   // [B, H, N, K]: the keys of the K largest scores in descending order, ties by lower
                                 // key; -1 if fewer keys are visible
  View<float, 4> top_weights{};  // [B, H, N, K]: their weights; 0 if fewer keys are visible
};
// A row with a NaN score has NaN for entropy, largest and top weights, and -1 for top keys.
void attention_row_insight(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                           int64_t q_begin, const RowInsight& out);

// The mass that each key receives: Σ over all queries of the weight they give it, before dropout → out [B, H, Tk]. Sums
// over 192 queries are computed in float and added in double, in order.
void attention_mass_received(const AttentionInputs& inputs, const AttentionOptions& options,
                             RowStates<const float> rows, View<float, 3> out);

}  // namespace heed
