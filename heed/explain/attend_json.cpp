#include "heed/explain/attend_json.h"

#include <algorithm>
#include <cmath>

#include "heed/explain/json_text.h"

namespace heed::explain {
namespace {

int64_t nonfinite(const Tensor& tensor) {
  return std::count_if(tensor.values().begin(), tensor.values().end(), [](float each) { return !std::isfinite(each); });
}

void put_data(JsonText& json, const Tensor& values, bool omit) {
  if (omit && values.count() > kMostJsonNumbers) {
    json.key("omitted").value(std::to_string(values.count()) + " numbers");
  } else {
    json.key("data").nested(values.values(), values.shape());
  }
}

// A weight as [inputs, outputs], for row vectors; a bias unchanged.
void put_parameter(JsonText& json, AttentionStep step, View<const float, 2> parameter) {
  const int64_t inputs = parameter.size(1), outputs = parameter.size(0);
  const bool is_bias = step_row(step).dims.size() == 1;
  Tensor transposed = is_bias ? Tensor({inputs}) : Tensor({inputs, outputs});
  const View<float, 2> to(transposed.values().data(), {inputs, outputs});
  for (int64_t i = 0; i < inputs; ++i) {
    for (int64_t j = 0; j < outputs; ++j) to(i, j) = parameter(j, i);
  }
  json.line().begin_object().key("name").value(step_name(step)).key("shape").list(transposed.shape());
  put_data(json, transposed, true);
  json.end_object();
}

void put_parameters(JsonText& json, const Layer& layer) {
  json.line().key("parameters").begin_array();
  for (const AttentionStep step : parameters_of(layer)) put_parameter(json, step, parameter_of(layer, step));
  json.end_array();
}

void put_sizes(JsonText& json, const AttendCase& given, const AttendSizes& s) {
  json.line().key("sizes").begin_object();
  json.key("batch").value(s.batch).key("queries").value(s.t_q).key("keys").value(s.t_k);
  json.key("heads").value(s.heads).key("kv_heads").value(s.kv_heads).key("d_k").value(s.d_k).key("d_v").value(s.d_v);
  if (given.layer.given()) {
    json.key("width_x").value(given.layer.in_shapes[0][1]).key("width_context").value(given.layer.in_shapes[1][1]);
    const bool out = given.layer.out.count() > 0;
    json.key("width_out").value(out ? given.layer.out.shape()[0] : s.heads * s.d_v);
  }
  json.end_object();
}

void put_tokens(JsonText& json, const AttendCase& given) {
  if (given.query_tokens.empty() && given.key_tokens.empty()) return;
  json.line().key("tokens").begin_object();
  json.key("query").list(given.query_tokens).key("key").list(given.key_tokens).end_object();
}

void put_recording(JsonText& json, const Recording& step, bool omit) {
  json.key("dims").begin_array();
  for (const Dim dim : step.dims) json.value(dim_name(dim));
  json.end_array().key("shape").list(step.values.shape());
  json.key("first").list(step.first).key("of").list(step.whole);
  put_data(json, step.values, omit);
  json.key("nonfinite").value(nonfinite(step.values));
}

void put_steps(JsonText& json, const AttendCase& given, const AttendRequest& request, const Walkthrough& all) {
  json.line().key("steps").begin_array();
  for (const Recording& step : all.steps) {
    const AttentionStep id = step_named(step.name);
    const int number = step_row(id).number;
    const bool named = std::find(request.steps.begin(), request.steps.end(), step.name) != request.steps.end();
    json.line().begin_object().key("n").value(number).key("name").value(step.name);
    json.key("formula").value(step_formula(given, id));
    put_recording(json, step, number <= 1 && !named);
    json.end_object();
  }
  json.end_array();
  if (all.visible.count() > 0) json.line().key("visible").nested_integers(all.visible.values(), all.visible.shape());
}

void put_top_keys(JsonText& json, const std::vector<TopKeys>& rows) {
  json.line().key("top_keys").begin_array();
  for (const TopKeys& row : rows) {
    json.line().begin_object().key("b").value(row.b).key("head").value(row.head).key("row").value(row.row);
    if (row.entropy) json.key("entropy").value(*row.entropy);
    json.key("largest").value(row.largest);
    json.key("keys").list(row.keys).key("weights").list(row.weights).end_object();
  }
  json.end_array();
}

void put_comparisons(JsonText& json, const std::vector<Comparison>& comparisons) {
  json.line().key("comparisons").begin_array();
  for (const Comparison& each : comparisons) {
    json.line().begin_object().key("title").value(each.title).key("formula").value(each.formula);
    json.key("right").value(each.right).key("why").value(each.why).key("shape").list(each.values.shape());
    json.key("data").nested(each.values.values(), each.values.shape());
    json.key("row_sums").list(each.row_sums).end_object();
  }
  json.end_array();
}

void put_gradients(JsonText& json, const std::vector<Gradient>& gradients) {
  json.line().key("gradients").begin_array();
  for (const Gradient& each : gradients) {
    json.line().begin_object().key("name").value(each.recording.name);
    put_recording(json, each.recording, each.recording.dims.size() == 2);
    if (each.finite_difference_error) json.key("finite_difference_error").value(*each.finite_difference_error);
    json.key("checked").value(each.checked).end_object();
  }
  json.end_array();
}

void put_checks(JsonText& json, const AttendChecks& checks) {
  json.line().key("checks").begin_object().key("rows_nonfinite").value(checks.rows_nonfinite);
  if (checks.out_rows_nonfinite) json.key("out_rows_nonfinite").value(*checks.out_rows_nonfinite);
  if (!checks.first_row_nonfinite.empty()) json.key("first_row_nonfinite").value(checks.first_row_nonfinite);
  if (checks.row_sum_max_err) json.key("row_sum_max_err").value(*checks.row_sum_max_err);
  if (checks.ref_max_abs_diff) json.key("ref_max_abs_diff").value(*checks.ref_max_abs_diff);
  json.key("rows_checked").value(checks.rows_checked).key("rows_shown").value(checks.rows_shown);
  json.key("visible_pairs").value(checks.visible_pairs).key("pairs").value(checks.pairs);
  json.key("rows_without_key").value(checks.rows_without_key).end_object();
}

void put_plan(JsonText& json, const AttentionPlan& plan) {
  json.line().key("plan").begin_object().key("isa").value(plan.isa).key("mask").value(plan.mask);
  json.key("piece_keys").value(plan.piece_keys).key("pieces").value(plan.pieces);
  json.key("pieces_skipped").value(plan.pieces_skipped).key("visible_pairs").value(plan.visible_pairs);
  json.key("flops_forward").value(plan.flops_forward).key("flops_backward").value(plan.flops_backward);
  json.key("bytes").value(plan.bytes).key("workspace_bytes").value(plan.workspace_bytes).end_object();
}

}  // namespace

std::string attend_json(const AttendCase& given, const AttendRequest& request, const Walkthrough& all) {
  JsonText json;
  json.begin_object().key("schema").value("heed/attend@1");
  json.line().key("title").value(given.title);
  if (!given.name.empty()) json.line().key("example").value(given.name);
  json.line().key("notes").list(given.notes);
  put_sizes(json, given, all.sizes);
  json.line().key("scale").value(scale_of(given)).key("mask").value(all.plan.mask);
  json.key("normalizer").value(given.sigmoid ? "sigmoid" : "softmax");
  const std::vector<std::string> options = option_names(given);
  if (!options.empty()) json.key("options").list(options);
  put_tokens(json, given);
  if (given.layer.given()) put_parameters(json, given.layer);
  put_steps(json, given, request, all);
  if (request.top_k > 0) put_top_keys(json, all.top_keys);
  if (!all.comparisons.empty()) put_comparisons(json, all.comparisons);
  if (request.gradients) put_gradients(json, all.gradients);
  put_checks(json, all.checks);
  put_plan(json, all.plan);
  json.end_object();
  return json.text() + "\n";
}

}  // namespace heed::explain
