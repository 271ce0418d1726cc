// Recording the steps of attention in a Trace. The numbers are the fast kernel's own, recomputed for what the trace's
// filter lets through (heed/attention/insight.h), so tracing changes no bit of a result.
#pragma once

#include "heed/attention/insight.h"
#include "heed/trace/trace.h"

namespace heed {

// Records a step from its whole tensor, under its name and with its dimensions.
template <int N>
void record_step(Trace& trace, AttentionStep step, View<const float, N> whole, int64_t group = 1) {
  const StepRow& row = step_row(step);
  trace.record(row.name, row.dims, whole, group);
}

// Records q, k, v, the steps from scores to dropped and heads, those that this call takes. `rows` and `heads` are what
// attention_forward filled.
void record_attention(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                      View<const float, 4> heads, Trace& trace);

// Records q.grad, k.grad, v.grad and weights.grad = d_heads vᵀ, 0 where a key is hidden. `gradients` are what
// attention_backward filled, d_heads [B, Tq, H, Dv] is what arrived at it.
void record_attention_gradients(const AttentionInputs& inputs, const AttentionOptions& options,
                                View<const float, 4> d_heads, const AttentionGradients& gradients, Trace& trace);

// May query q of head h of item b see key k? By the mask, and by a bias that is not -∞.
bool sees_key(const AttentionOptions& options, const MaskSizes& sizes, const TilePlace& place);

// Is any key hidden from any query: is `masked` a step of its own?
bool hides_keys(const AttentionOptions& options);

}  // namespace heed
