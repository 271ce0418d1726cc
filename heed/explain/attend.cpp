#include "heed/explain/attend.h"

#include <algorithm>
#include <utility>

#include "heed/attention/insight.h"
#include "heed/attention/trace_steps.h"
#include "heed/explain/attend_checks.h"
#include "heed/explain/attend_gradients.h"
#include "heed/explain/attend_run.h"
#include "heed/explain/comparisons.h"
#include "heed/explain/number_text.h"

namespace heed::explain {
namespace {

// The requested names, or all; an Error for a step that this case does not take.
std::vector<std::string> wanted_steps(const AttendCase& given, const std::vector<std::string>& asked) {
  std::vector<std::string> taken = step_names(given);
  if (asked.empty()) return taken;
  for (const std::string& name : asked) {
    check(std::find(taken.begin(), taken.end(), name) != taken.end(), "attend", "there is no step '", name, "' here");
  }
  return asked;
}

QueryRange shown_rows(const AttendRequest& request, int64_t t_q) {
  const QueryRange rows = request.rows.value_or(QueryRange{0, t_q});
  check(rows.begin >= 0 && rows.begin <= rows.end && rows.end <= t_q, "attend", "rows ", rows.begin, " to ", rows.end,
        " are asked for; there are ", t_q, " queries");
  return rows;
}

// The call only saw the queries `rows`; a recording gives their place among all queries.
void place_among_all(Recording& recording, const QueryRange& rows, int64_t t_q) {
  for (size_t i = 0; i < recording.dims.size(); ++i) {
    if (recording.dims[i] != Dim::t_q) continue;
    recording.first[i] += rows.begin;
    recording.whole[i] = t_q;
  }
}

// Which keys the rows shown see, where any is hidden and the matrix of it is shown.
Tensor visible_of(const AttendRun& run, const std::vector<Recording>& steps) {
  const auto shown = std::find_if(steps.begin(), steps.end(), [](const Recording& each) {
    return each.name == step_name(AttentionStep::masked) || each.name == step_name(AttentionStep::weights);
  });
  if (shown == steps.end() || !hides_keys(run.options)) return {};
  Tensor visible(shown->values.shape());
  const View<float, 4> to = visible.view<4>();
  const MaskSizes sizes{run.inputs.q.size(0), run.inputs.q.size(2), run.rows.count(), run.inputs.k.size(1)};
  for (int64_t b = 0; b < to.size(0); ++b) {
    for (int64_t h = 0; h < to.size(1); ++h) {
      for (int64_t i = 0; i < to.size(2); ++i) {
        for (int64_t k = 0; k < to.size(3); ++k) {
          to(b, h, i, k) = sees_key(run.options, sizes, {b, shown->first[1] + h, i, k}) ? 1.0F : 0.0F;
        }
      }
    }
  }
  return visible;
}

std::vector<TopKeys> top_keys_of(const AttendRun& run, const AttendRequest& request) {
  const int64_t batch = run.inputs.q.size(0), heads = run.inputs.q.size(2), rows = run.rows.count();
  const int64_t k = std::min(request.top_k, run.inputs.k.size(1));
  const bool sigmoid = run.options.scores.normaliser == Normaliser::sigmoid;
  Tensor entropy({batch, heads, rows}), largest({batch, heads, rows}), weights({batch, heads, rows, k});
  std::vector<int64_t> keys(static_cast<size_t>(batch * heads * rows * k));
  RowInsight insight{{}, largest.view<3>(), {}, {}};
  if (k > 0) {
    insight.top_keys = {keys.data(), {batch, heads, rows, k}};
    insight.top_weights = weights.view<4>();
  }
  if (!sigmoid) insight.entropy = entropy.view<3>();
  attention_row_insight(run.inputs, run.options, run.states, 0, insight);
  std::vector<TopKeys> result;
  size_t at = 0;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i, ++at) {
        if (request.head && *request.head != h) continue;
        TopKeys row{b, h, run.rows.begin + i, {}, largest.values()[at], {}, {}};
        if (!sigmoid) row.entropy = entropy.values()[at];
        for (size_t n = at * static_cast<size_t>(k); n < (at + 1) * static_cast<size_t>(k); ++n) {
          if (keys[n] < 0) break;  // fewer keys are visible
          row.keys.push_back(keys[n]);
          row.weights.push_back(weights.values()[n]);
        }
        result.push_back(std::move(row));
      }
    }
  }
  return result;
}

// attention_plan only uses shapes.
AttentionPlan plan_of(const AttendCase& given, const AttendSizes& s) {
  const float any = 0.0F;
  return attention_plan({{&any, {s.batch, s.t_q, s.heads, s.d_k}},
                         {&any, {s.batch, s.t_k, s.kv_heads, s.d_k}},
                         {&any, {s.batch, s.t_k, s.kv_heads, s.d_v}}},
                        options_of(given, {0, s.t_q}));
}

}  // namespace

Walkthrough attend(const AttendCase& given, const AttendRequest& request) {
  Walkthrough result;
  result.sizes = sizes_of(given);
  result.rows = shown_rows(request, result.sizes.t_q);
  Trace trace({wanted_steps(given, request.steps), request.head, {}});
  const AttendRun run(given, result.rows, &trace);
  result.steps = std::move(trace.recordings());
  for (Recording& each : result.steps) place_among_all(each, result.rows, result.sizes.t_q);
  result.visible = visible_of(run, result.steps);
  if (request.top_k > 0) result.top_keys = top_keys_of(run, request);
  result.comparisons = comparisons_of(given);
  if (request.gradients) result.gradients = gradients_of(given, request, result.rows);
  result.checks = checks_of(given, run, request.head);
  result.plan = plan_of(given, result.sizes);
  return result;
}

Tensor attend_output(const AttendCase& given) {
  const AttendRun run(given, {0, sizes_of(given).t_q}, nullptr);
  const bool layer = given.layer.given();
  const View<const float, 4>& heads = run.heads;
  const int64_t width = heads.size(2) * heads.size(3);
  Tensor result = run.out.data() != nullptr ? Tensor({heads.size(0), heads.size(1), run.out.size(2)})
                  : layer                   ? Tensor({heads.size(0), heads.size(1), width})
                                            : Tensor({heads.size(0), heads.size(1), heads.size(2), heads.size(3)});
  std::copy_n(run.out.data() != nullptr ? run.out.data() : heads.data(), result.count(), result.values().data());
  return result;
}

std::string step_formula(const AttendCase& given, AttentionStep step) {
  const bool projected = step_row(step).number == 1;
  if (projected && !given.layer.given()) return given_formula(step);
  FormulaTerms terms;
  terms.role = given.is_self() ? "a row for each token" : "where the queries come from";
  terms.scaled =
      given.scale ? shortest(*given.scale) + " · scores" : "scores / √" + std::to_string(sizes_of(given).d_k);
  if (given.soft_cap) terms.cap = shortest(*given.soft_cap);
  if (given.alibi_slopes.count() > 0) terms.added += " − slope · |distance|";
  if (given.bias.count() > 0) terms.added += " + bias";
  terms.hidden = "−∞";
  terms.normaliser = given.sigmoid ? "sigmoid" : "softmax";
  if (given.sigmoid) terms.remark = ", each for itself";
  if (given.sinks.count() > 0 && !given.sigmoid) terms.remark = ", the sink in the sum";
  const auto taken = [&](AttentionStep each) { return takes_step(given, each); };
  return step_formula(step, taken_sources(step, taken), terms);
}

}  // namespace heed::explain
