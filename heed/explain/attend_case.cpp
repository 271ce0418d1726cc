#include "heed/explain/attend_case.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "heed/attention/trace_steps.h"
#include "heed/explain/number_text.h"
#include "heed/explain/steps.h"

namespace heed::explain {
namespace {

// Position of query 0 among the keys.
int64_t query_offset(const AttendCase& given, const AttendSizes& sizes) {
  if (given.align == Align::bottom_right) return sizes.t_k - sizes.t_q;
  check(given.align == Align::top_left || sizes.t_q == sizes.t_k, "attend", sizes.t_q, " queries stand among ",
        sizes.t_k, " keys; say where: bottom-right (the last query at the last key) or top-left");
  return 0;
}

// A dense mask of the given rank, its queries cut to `rows`.
template <int N>
Mask dense_mask(const DenseMask& dense, const QueryRange& rows) {
  Shape<N> shape{};
  std::copy_n(dense.shape.begin(), N, shape.begin());
  const auto values = View<const bool, N>(dense.values.get(), shape).slice(N - 2, rows.begin, rows.count());
  return dense.keep ? Mask::keep(values) : Mask::block(values);
}

Mask mask_of(const AttendCase& given, const AttendSizes& sizes, const QueryRange& rows) {
  Mask mask;
  if (given.causal) mask = mask & Mask::causal(QueryPositions::from(query_offset(given, sizes) + rows.begin));
  if (given.window) {
    const QueryPositions positions = QueryPositions::from(query_offset(given, sizes) + rows.begin);
    mask = mask & Mask::window(given.window->left, given.window->right, positions);
  }
  if (!given.lengths.empty()) mask = mask & Mask::lengths(given.lengths);
  if (given.dense.values == nullptr) return mask;
  switch (given.dense.shape.size()) {
    case 2:
      return mask & dense_mask<2>(given.dense, rows);
    case 3:
      return mask & dense_mask<3>(given.dense, rows);
    default:
      return mask & dense_mask<4>(given.dense, rows);
  }
}

}  // namespace

AttendSizes sizes_of(const AttendCase& given) {
  if (!given.layer.given()) {
    return {given.q.shape()[0], given.q.shape()[1], given.k.shape()[1], given.q.shape()[2],
            given.k.shape()[2], given.q.shape()[3], given.v.shape()[3]};
  }
  const int64_t kv_heads = given.kv_heads == 0 ? given.heads : given.kv_heads;
  const Tensor& keys = given.is_self() ? given.x : given.context;
  return {given.x.shape()[0],
          given.x.shape()[1],
          keys.shape()[1],
          given.heads,
          kv_heads,
          given.layer.in_shapes[0][0] / given.heads,
          given.layer.in_shapes[2][0] / kv_heads};
}

float scale_of(const AttendCase& given) {
  return given.scale.value_or(static_cast<float>(1.0 / std::sqrt(static_cast<double>(sizes_of(given).d_k))));
}

AttentionOptions options_of(const AttendCase& given, const QueryRange& rows) {
  const AttendSizes sizes = sizes_of(given);
  AttentionOptions options;
  options.mask = mask_of(given, sizes, rows);
  options.scale = given.scale;
  options.scores.soft_cap = given.soft_cap;
  if (given.alibi_slopes.count() > 0) {
    options.scores.alibi_slopes = given.alibi_slopes.view<1>();
    options.scores.positions = QueryPositions::from(query_offset(given, sizes) + rows.begin);
  }
  if (given.bias.count() > 0) options.scores.bias = given.bias.view<4>().slice(2, rows.begin, rows.count());
  if (given.sinks.count() > 0) options.scores.sinks = given.sinks.view<1>();
  if (given.sigmoid) options.scores.normaliser = Normaliser::sigmoid;
  return options;
}

std::vector<std::string> option_names(const AttendCase& given) {
  std::vector<std::string> names;
  if (given.soft_cap) names.push_back("soft cap " + shortest(*given.soft_cap));
  if (given.alibi_slopes.count() > 0) names.emplace_back("ALiBi");
  if (given.bias.count() > 0) names.emplace_back("bias");
  if (given.sinks.count() > 0) names.emplace_back("sink");
  return names;
}

View<const float, 2> parameter_of(const Layer& layer, AttentionStep step) {
  const MultiHeadParameters<const float> p = layer.parameters();
  const auto row = [](View<const float, 1> bias) {
    return bias.data() == nullptr ? View<const float, 2>() : View<const float, 2>(bias.data(), {1, bias.size(0)});
  };
  switch (step) {
    case AttentionStep::w_q:
      return p.q;
    case AttentionStep::b_q:
      return row(p.q_bias);
    case AttentionStep::w_k:
      return p.k;
    case AttentionStep::b_k:
      return row(p.k_bias);
    case AttentionStep::w_v:
      return p.v;
    case AttentionStep::b_v:
      return row(p.v_bias);
    case AttentionStep::w_o:
      return p.out;
    case AttentionStep::b_o:
      return row(p.out_bias);
    default:
      fail("parameter_of", "step ", step_name(step), " is no parameter");
  }
}

std::vector<AttentionStep> parameters_of(const Layer& layer) {
  std::vector<AttentionStep> found;
  for (const AttentionStep step : all_steps()) {
    if (step_row(step).kind == StepKind::parameter && parameter_of(layer, step).count() > 0) found.push_back(step);
  }
  std::stable_partition(found.begin(), found.end(), [](AttentionStep each) { return step_row(each).dims.size() == 2; });
  return found;
}

bool takes_step(const AttendCase& given, AttentionStep step) {
  if (step_row(step).kind == StepKind::parameter) return parameter_of(given.layer, step).count() > 0;
  switch (step) {
    case AttentionStep::x:
      return given.layer.given();
    case AttentionStep::context:
      return given.layer.given() && !given.is_self();
    case AttentionStep::capped:
      return given.soft_cap.has_value();
    case AttentionStep::biased:
      return given.alibi_slopes.count() > 0 || given.bias.count() > 0;
    case AttentionStep::masked:
      return hides_keys(options_of(given, {0, sizes_of(given).t_q}));
    case AttentionStep::concat:
      return given.layer.given() || sizes_of(given).heads > 1;
    case AttentionStep::out:
      return given.layer.out.count() > 0;
    default:
      return is_explained(step);
  }
}

std::vector<std::string> step_names(const AttendCase& given) {
  std::vector<std::string> names;
  for (const AttentionStep step : all_steps()) {
    const bool shown = step_row(step).kind != StepKind::parameter;
    if (shown && takes_step(given, step)) names.emplace_back(step_name(step));
  }
  return names;
}

const std::vector<std::string>& step_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const AttentionStep step : all_steps()) {
      const bool shown = step_row(step).kind != StepKind::parameter && is_explained(step);
      if (shown) names.emplace_back(step_name(step));
    }
    return names;
  }();
  return kNames;
}

}  // namespace heed::explain
