#include "heed/explain/attend_gradients.h"

#include <algorithm>
#include <utility>

#include "heed/attention/trace_steps.h"
#include "heed/explain/finite_difference.h"

namespace heed::explain {
namespace {

// [outputs, inputs] as row vectors take it.
Recording parameter_gradient(const AttendCase& given, AttentionStep step, View<const float, 2> from) {
  const std::span<const Dim> dims = step_row(step).dims;
  Recording made{gradient_name(step), {dims.begin(), dims.end()}, {from.size(1), from.size(0)}, {0, 0}, {}};
  if (given.is_self()) std::replace(made.dims.begin(), made.dims.end(), Dim::c_context, Dim::c);
  made.values = Tensor({from.size(1), from.size(0)});
  const View<float, 2> to = made.values.view<2>();
  for (int64_t i = 0; i < to.size(0); ++i) {
    for (int64_t j = 0; j < to.size(1); ++j) to(i, j) = from(j, i);
  }
  return made;
}

std::vector<Recording> layer_gradients(const AttendCase& given, const Tensor& d_out, Trace& trace) {
  const AttendSizes sizes = sizes_of(given);
  const Layer& layer = given.layer;
  MultiHeadOptions options;
  options.heads = sizes.heads;
  options.kv_heads = sizes.kv_heads;
  options.attention = options_of(given, {0, sizes.t_q});
  const View<const float, 3> x = given.x.view<3>();
  const View<const float, 3> context = given.is_self() ? x : given.context.view<3>();
  MultiHeadState state;
  Tensor y(d_out.shape());
  multihead_forward({x, context, context}, layer.parameters(), options, state, y.view<3>());
  // Those of the weights; nobody asks for those of the biases.
  Layer d_layer;
  d_layer.in = Tensor(layer.in.shape());
  d_layer.in_shapes = layer.in_shapes;
  if (layer.out.count() > 0) d_layer.out = Tensor(layer.out.shape());
  MultiHeadGradients gradients;
  gradients.parameters = d_layer.parameters();
  options.trace = &trace;
  multihead_backward({x, context, context}, layer.parameters(), options, state, d_out.view<3>(), gradients);

  std::vector<Recording> result = std::move(trace.recordings());
  if (!trace.filter().names.empty()) return result;
  for (const AttentionStep step : parameters_of(d_layer)) {
    result.push_back(parameter_gradient(given, step, parameter_of(d_layer, step)));
  }
  return result;
}

std::vector<Recording> head_gradients(const AttendCase& given, const Tensor& d_out, Trace& trace) {
  const AttendSizes s = sizes_of(given);
  const AttentionInputs inputs{given.q.view<4>(), given.k.view<4>(), given.v.view<4>()};
  const AttentionOptions options = options_of(given, {0, s.t_q});
  Tensor out(d_out.shape());
  Tensor shift({s.batch, s.heads, s.t_q}), sum = shift;
  const RowStates<float> rows{shift.view<3>(), sum.view<3>()};
  attention_forward(inputs, options, out.view<4>(), rows);
  Tensor d_q(given.q.shape()), d_k(given.k.shape()), d_v(given.v.shape());
  const AttentionGradients gradients{d_q.view<4>(), d_k.view<4>(), d_v.view<4>()};
  attention_backward(inputs, options, {std::as_const(out).view<4>(), rows, d_out.view<4>()}, gradients);
  record_attention_gradients(inputs, options, d_out.view<4>(), gradients, trace);
  return std::move(trace.recordings());
}

}  // namespace

std::vector<Gradient> gradients_of(const AttendCase& given, const AttendRequest& request, const QueryRange& rows) {
  const AttendSizes s = sizes_of(given);
  Tensor ones;
  if (request.d_out == nullptr) {
    const Layer& layer = given.layer;
    const int64_t width = layer.out.count() > 0 ? layer.out.shape()[0] : s.heads * s.d_v;
    ones = layer.given() ? Tensor({s.batch, s.t_q, width}) : Tensor({s.batch, s.t_q, s.heads, s.d_v});
    std::fill(ones.values().begin(), ones.values().end(), 1.0F);
  }
  const Tensor& d_out = request.d_out != nullptr ? *request.d_out : ones;
  Trace trace({request.steps, request.head, rows});
  std::vector<Recording> made =
      given.layer.given() ? layer_gradients(given, d_out, trace) : head_gradients(given, d_out, trace);
  FiniteDifference difference(given, d_out);
  std::vector<Gradient> result;
  result.reserve(made.size());
  for (Recording& each : made) result.push_back(difference.checked(std::move(each)));
  return result;
}

}  // namespace heed::explain
