// Looking inside attention: any row or tile of any step, what a row looks at and what a key receives, recomputed from
// q, k, v and the row states that attention_forward kept. So looking costs the fast kernel nothing, and no Tq × Tk
// buffer exists unless it is what was asked for.
//
// Scores are the bits that forward used: q times scale · log256 e, rounded once; one chain of multiply-adds over d;
// then the score options. A weight is 256^(score - shift) / sum, within 4 · 2^-23 of its size, and 0 where the
// power is below 2^-126. A weight by sigmoid has forward's bits. Everything has the same bits for any number of
// threads.
//
// Letters as in attention.h. Calls take the inputs and options of the forward call and the states that it filled.
#pragma once

#include <cstdint>

#include "heed/attention/attention.h"
#include "heed/attention/step_table.h"

namespace heed {

// The steps from `scores` to `heads` can be looked at (AttentionStep, heed/attention/step_table.h). As the kernels take
// them:
//     scores   q kᵀ: one chain over each 128 widths, of q as it is
//     scaled   scale · scores, as forward had it: its base 256 score times ln 256, and so are the next three
//     capped   taken with a soft cap
//     biased   + ALiBi, relative table and dense bias; taken with one of them
//     masked   -∞ where a key is hidden
//     weights  softmax of masked, or sigmoid; 0 where a key is hidden, also in a row that sees no key or sees NaN
//     dropped  weights times 0 or 1 / (1 - p); taken with dropout
//     heads    dropped · v: the bits of forward's out

// Is the step taken with these options? To ask for one that is not is an Error.
bool takes_step(const ScoreOptions& scores, AttentionStep step);

// Where a tile begins.
struct TilePlace {
  int64_t b = 0;
  int64_t head = 0;
  int64_t q = 0;  // the first query
  int64_t k = 0;  // the first key; 0 for `heads`
};

// A tile of one step → out: [queries, keys], or [queries, Dv] of `heads`. A row is a tile of one query and Tk keys.
// `rows` is needed for weights and dropped alone, and not with sigmoid.
void attention_tile(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                    AttentionStep step, const TilePlace& place, View<float, 2> out);

// All weights, before dropout → out [B, H, Tq, Tk].
void attention_weights(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                       View<float, 4> out);

// What the queries q_begin … q_begin + N - 1 of every item and head look at. Null views are not computed; the others
// agree in N.
struct RowInsight {
  View<float, 3> entropy{};      // [B, H, N]: -Σ weight · ln weight, in nats, a sink among the terms; 0 for a row
                                 // with no visible key; an Error with sigmoid, whose weights are no distribution
  View<float, 3> largest{};      // [B, H, N]: the largest masked score; -∞ for a row with no visible key
  View<int64_t, 4> top_keys{};   // [B, H, N, K]: the keys of the K largest scores, the largest first, of equal ones the
                                 // lower key first; -1 where fewer keys are visible
  View<float, 4> top_weights{};  // [B, H, N, K]: their weights; 0 where fewer keys are visible
};
// A row that sees NaN in a score has NaN as entropy, largest and top weights, and -1 as top keys.
void attention_row_insight(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                           int64_t q_begin, const RowInsight& out);

// The mass that each key receives: Σ over all queries of the weight they give it, before dropout → out [B, H, Tk]. Sums
// of 192 queries are taken in float and added in double, in order.
void attention_mass_received(const AttentionInputs& inputs, const AttentionOptions& options,
                             RowStates<const float> rows, View<float, 3> out);

}  // namespace heed
