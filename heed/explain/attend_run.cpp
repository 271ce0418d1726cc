#include "heed/explain/attend_run.h"

#include <utility>

#include "heed/attention/trace_steps.h"

namespace heed::explain {
namespace {

// Tokens `rows` of each item, [B, rows, C].
Tensor rows_of(const Tensor& x, const QueryRange& rows) {
  const View<const float, 3> from = x.view<3>().slice(1, rows.begin, rows.count());
  Tensor made({from.size(0), from.size(1), from.size(2)});
  const View<float, 3> to = made.view<3>();
  for (int64_t b = 0; b < to.size(0); ++b) {
    for (int64_t t = 0; t < to.size(1); ++t) std::copy_n(&from(b, t, 0), to.size(2), &to(b, t, 0));
  }
  return made;
}

}  // namespace

AttendRun::AttendRun(const AttendCase& given, const QueryRange& asked, Trace* trace)
    : rows(asked), options(options_of(given, asked)) {
  options.arena = &arena_;
  if (given.layer.given()) {
    run_layer(given, trace);
  } else {
    run_heads(given, trace);
  }
}

void AttendRun::run_layer(const AttendCase& given, Trace* trace) {
  const AttendSizes sizes = sizes_of(given);
  MultiHeadOptions layer;
  layer.heads = sizes.heads;
  layer.kv_heads = sizes.kv_heads;
  layer.attention = options;
  layer.trace = trace;
  const View<const float, 3> x = given.x.view<3>();
  View<const float, 3> query = x;
  if (rows.count() != sizes.t_q) {
    x_ = rows_of(given.x, rows);
    query = std::as_const(x_).view<3>();
  }
  const View<const float, 3> context = given.is_self() ? x : given.context.view<3>();
  const bool has_out = given.layer.out.count() > 0;
  const int64_t width = has_out ? given.layer.out.shape()[0] : sizes.heads * sizes.d_v;
  out_ = Tensor({sizes.batch, rows.count(), width});
  multihead_forward({query, context, context}, given.layer.parameters(), layer, state_, out_.view<3>());
  inputs = state_.attention;
  states = state_.rows;
  heads = {state_.concat.data(), {sizes.batch, rows.count(), sizes.heads, sizes.d_v}};
  if (has_out) out = std::as_const(out_).view<3>();
}

void AttendRun::run_heads(const AttendCase& given, Trace* trace) {
  const AttendSizes s = sizes_of(given);
  inputs = {given.q.view<4>().slice(1, rows.begin, rows.count()), given.k.view<4>(), given.v.view<4>()};
  heads_ = Tensor({s.batch, rows.count(), s.heads, s.d_v});
  heads = std::as_const(heads_).view<4>();
  shift_ = Tensor({s.batch, s.heads, rows.count()});
  sum_ = Tensor({s.batch, s.heads, rows.count()});
  const RowStates<float> made{shift_.view<3>(), sum_.view<3>()};
  states = made;
  attention_forward(inputs, options, heads_.view<4>(), made);
  if (trace == nullptr) return;
  record_attention(inputs, options, states, heads, *trace);
  record_step(*trace, AttentionStep::concat,
              View<const float, 3>(heads.data(), {s.batch, rows.count(), s.heads * s.d_v}));
}

}  // namespace heed::explain
