#include "heed/attention/trace_steps.h"

#include <limits>
#include <string>

#include "heed/attention/dropout.h"
#include "heed/ops/matmul.h"

namespace heed {
namespace {

MaskSizes sizes_of(const AttentionInputs& in) { return {in.q.size(0), in.q.size(2), in.q.size(1), in.k.size(1)}; }

int64_t group_of(const AttentionInputs& in) { return in.q.size(2) / in.k.size(2); }

// True if a call with these options has the step as a separate one.
bool is_taken(const AttentionOptions& options, AttentionStep step) {
  return step == AttentionStep::masked ? hides_keys(options) : takes_step(options.scores, step);
}

// Adds a recording [B, H, Tq, Tk], and visit(place, matrix) fills the [queries, Tk] matrix of each item and head.
template <class Visit>
void record_matrices(std::string_view name, const AttentionInputs& in, Trace& trace, Visit visit) {
  if (!trace.wants(name)) return;
  const MaskSizes s = sizes_of(in);
  Recording& made = trace.add(name, step_row(AttentionStep::weights).dims, {s.batch, s.heads, s.t_q, s.t_k});
  const View<float, 4> values = made.values.view<4>();
  for (int64_t b = 0; b < values.size(0); ++b) {
    for (int64_t h = 0; h < values.size(1); ++h) {
      visit(TilePlace{b, made.first[1] + h, made.first[2], 0}, values[b][h]);
    }
  }
}

// The gradient of a step has its dimensions.
void record_gradient(Trace& trace, AttentionStep step, const View<const float, 4>& whole, int64_t group = 1) {
  trace.record(gradient_name(step), step_row(step).dims, whole, group);
}

}  // namespace

bool hides_keys(const AttentionOptions& options) {
  if (!options.mask.is_none()) return true;
  const View<const float, 4>& bias = options.scores.bias;
  if (bias.data() == nullptr) return false;
  for (int64_t b = 0; b < bias.size(0); ++b) {
    for (int64_t h = 0; h < bias.size(1); ++h) {
      for (int64_t q = 0; q < bias.size(2); ++q) {
        for (int64_t k = 0; k < bias.size(3); ++k) {
          if (bias(b, h, q, k) == -std::numeric_limits<float>::infinity()) return true;
        }
      }
    }
  }
  return false;
}

bool sees_key(const AttentionOptions& options, const MaskSizes& sizes, const TilePlace& place) {
  if (!options.mask.visible(sizes, place.b, place.head, place.q, place.k)) return false;
  const View<const float, 4>& bias = options.scores.bias;
  if (bias.data() == nullptr) return true;
  const int64_t b = bias.size(0) == 1 ? 0 : place.b;
  const int64_t h = bias.size(1) == 1 ? 0 : place.head;
  return bias(b, h, place.q, place.k) != -std::numeric_limits<float>::infinity();
}

void record_attention(const AttentionInputs& in, const AttentionOptions& options, RowStates<const float> rows,
                      View<const float, 4> heads, Trace& trace) {
  record_step(trace, AttentionStep::q, in.q);
  record_step(trace, AttentionStep::k, in.k, group_of(in));
  record_step(trace, AttentionStep::v, in.v, group_of(in));
  for (const AttentionStep step : all_steps()) {
    if (!is_query_by_key(step) || !is_taken(options, step)) continue;
    record_matrices(step_name(step), in, trace, [&](const TilePlace& place, const View<float, 2>& out) {
      attention_tile(in, options, rows, step, place, out);
    });
  }
  record_step(trace, AttentionStep::heads, heads);
}

void record_attention_gradients(const AttentionInputs& in, const AttentionOptions& options,
                                View<const float, 4> d_heads, const AttentionGradients& gradients, Trace& trace) {
  record_gradient(trace, AttentionStep::q, gradients.d_q.view);
  record_gradient(trace, AttentionStep::k, gradients.d_k.view, group_of(in));
  record_gradient(trace, AttentionStep::v, gradients.d_v.view, group_of(in));
  const MaskSizes sizes = sizes_of(in);
  const Dropout& dropout = options.scores.dropout;
  record_matrices(
      gradient_name(AttentionStep::weights), in, trace, [&](const TilePlace& place, const View<float, 2>& out) {
        const auto [b, head, first, first_key] = place;
        const View<const float, 2> d_rows = d_heads[b].permuted({1, 0, 2})[head].slice(0, first, out.size(0));
        const View<const float, 2> v = in.v[b].permuted({1, 0, 2})[head / group_of(in)];
        matmul(d_rows, v.transposed(), out);
        for (int64_t i = 0; i < out.size(0); ++i) {
          const DropoutRow dropout_of_row = dropout_row(dropout_head(dropout, b, head), first + i);
          for (int64_t k = 0; k < out.size(1); ++k) {
            const bool kept = dropout_bits(dropout_of_row, k) >= dropout_threshold(dropout);
            if (!kept || !sees_key(options, sizes, {b, head, first + i, k})) out(i, k) = 0.0F;
            if (kept) out(i, k) *= static_cast<float>(dropout_scale(dropout));
          }
        }
      });
}

}  // namespace heed
