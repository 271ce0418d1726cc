// Records the steps of attention in a Trace. The numbers are those of the fast kernel, recomputed for the part that the
// trace's filter selects (heed/attention/insight.h), so tracing changes no bit of a result.
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

// Records q, k, v, heads and the steps from scores to dropped that this call takes. `rows` and `heads` are the results
// of attention_forward.
void record_attention(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                      View<const float, 4> heads, Trace& trace);

// Records q.grad, k.grad, v.grad and weights.grad = d_heads vᵀ, 0 where a key is hidden. `gradients` are the results of
// attention_backward, d_heads [B, Tq, H, Dv] its incoming gradient.
void record_attention_gradients(const AttentionInputs& inputs, const AttentionOptions& options,
                                View<const float, 4> d_heads, const AttentionGradients& gradients, Trace& trace);

// Whether query q of head h of item b sees key k: visible in the mask, and its bias is not -∞.
bool sees_key(const AttentionOptions& options, const MaskSizes& sizes, const TilePlace& place);

// Whether any key is hidden from any query, so that `masked` is a separate step.
bool hides_keys(const AttentionOptions& options);

}  // namespace heed
