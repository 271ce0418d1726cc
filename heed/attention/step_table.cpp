#include "heed/attention/step_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "heed/core/error.h"

namespace heed {
namespace {

using enum AttentionStep;
using enum Dim;

template <Dim... each>
constexpr std::array<Dim, sizeof...(each)> dims{each...};

template <AttentionStep... each>
constexpr std::array<AttentionStep, sizeof...(each)> from{each...};

constexpr StepKind kInput = StepKind::input;
constexpr StepKind kParameter = StepKind::parameter;
constexpr StepKind kComputed = StepKind::computed;
constexpr bool kOptional = true;
constexpr bool kAlways = false;

// A new step is a row here and a name in AttentionStep, in the same place; the assertions below say where they differ.
constexpr std::array<StepRow, kStepCount> kTable = {{
    {"x", kInput, 0, dims<b, t_q, c>, from<>, kAlways, "x, {role}", "One row a token: what the queries are made from."},
    {"context", kInput, 0, dims<b, t_k, c_context>, from<x>, kOptional, "context, where keys and values come from",
     "One row a token: what the keys and values are made from."},
    {"W_Q", kParameter, 1, dims<c, h_d_k>, from<>, kAlways, "", ""},
    {"b_Q", kParameter, 1, dims<h_d_k>, from<>, kAlways, "", ""},
    {"q", kComputed, 1, dims<b, t_q, h, d_k>, from<x, w_q, b_q>, kAlways, "q = {before} W_Q{bias}",
     "What each query token looks for."},
    {"W_K", kParameter, 1, dims<c_context, h_kv_d_k>, from<>, kAlways, "", ""},
    {"b_K", kParameter, 1, dims<h_kv_d_k>, from<>, kAlways, "", ""},
    {"k", kComputed, 1, dims<b, t_k, h_kv, d_k>, from<context, w_k, b_k>, kAlways, "k = {before} W_K{bias}",
     "What each key token offers to be found by."},
    {"W_V", kParameter, 1, dims<c_context, h_kv_d_v>, from<>, kAlways, "", ""},
    {"b_V", kParameter, 1, dims<h_kv_d_v>, from<>, kAlways, "", ""},
    {"v", kComputed, 1, dims<b, t_k, h_kv, d_v>, from<context, w_v, b_v>, kAlways, "v = {before} W_V{bias}",
     "What each key token gives when it is found."},
    {"scores", kComputed, 3, dims<b, h, t_q, t_k>, from<q, k>, kAlways, "scores = q kᵀ",
     "How well query and key agree: one dot product a pair."},
    {"scaled", kComputed, 3, dims<b, h, t_q, t_k>, from<scores>, kAlways, "scaled = {scaled}",
     "Divided by √Dk unless told otherwise, so that wide heads do not make the softmax hard."},
    {"capped", kComputed, 3, dims<b, h, t_q, t_k>, from<scaled>, kOptional, "capped = {cap} · tanh({before} / {cap})",
     "Held between −cap and cap by a tanh."},
    {"biased", kComputed, 3, dims<b, h, t_q, t_k>, from<capped>, kOptional, "biased = {before}{added}",
     "What positions or the caller add to a score."},
    {"masked", kComputed, 3, dims<b, h, t_q, t_k>, from<biased>, kOptional,
     "masked = {before}, {hidden} where a key is hidden", "A hidden key gets −∞ here, before the weights are made."},
    {"weights", kComputed, 3, dims<b, h, t_q, t_k>, from<masked>, kAlways, "weights = {normaliser}({before}){remark}",
     "What share of its attention each query gives to each key."},
    {"dropped", kComputed, 3, dims<b, h, t_q, t_k>, from<weights>, kOptional, "dropped = {before} / (1 − p), or 0",
     "Weights left out at random while training."},
    {"heads", kComputed, 4, dims<b, t_q, h, d_v>, from<dropped, v>, kAlways, "heads = {before} v",
     "For each query the mean of the values, by its weights."},
    {"concat", kComputed, 6, dims<b, t_q, h_d_v>, from<heads>, kAlways, "concat = the heads side by side",
     "The heads of a token in one row."},
    {"W_O", kParameter, 7, dims<h_d_v, c_out>, from<>, kAlways, "", ""},
    {"b_O", kParameter, 7, dims<c_out>, from<>, kAlways, "", ""},
    {"out", kComputed, 7, dims<b, t_q, c_out>, from<concat, w_o, b_o>, kAlways, "out = {before} W_O{bias}",
     "W_O lets the heads mix; without it each head's columns would stay to themselves."},
}};

constexpr const StepRow& row_of(AttentionStep step) { return kTable[static_cast<size_t>(step)]; }

// A step's sources come before it, and names are unique.
constexpr bool in_order() {
  for (size_t n = 0; n < kStepCount; ++n) {
    for (const AttentionStep source : kTable[n].sources) {
      if (static_cast<size_t>(source) >= n) return false;
    }
    for (size_t other = 0; other < n; ++other) {
      if (kTable[other].name == kTable[n].name) return false;
    }
  }
  return true;
}
static_assert(in_order());

// Each name of AttentionStep finds its own row.
constexpr std::pair<AttentionStep, std::string_view> kNames[] = {
    {x, "x"},
    {context, "context"},
    {w_q, "W_Q"},
    {b_q, "b_Q"},
    {q, "q"},
    {w_k, "W_K"},
    {b_k, "b_K"},
    {k, "k"},
    {w_v, "W_V"},
    {b_v, "b_V"},
    {v, "v"},
    {scores, "scores"},
    {scaled, "scaled"},
    {capped, "capped"},
    {biased, "biased"},
    {masked, "masked"},
    {weights, "weights"},
    {dropped, "dropped"},
    {heads, "heads"},
    {concat, "concat"},
    {w_o, "W_O"},
    {b_o, "b_O"},
    {out, "out"},
};
static_assert(std::size(kNames) == kStepCount &&
              std::ranges::all_of(kNames, [](const auto& each) { return row_of(each.first).name == each.second; }));

constexpr std::array<AttentionStep, kStepCount> kAll = [] {
  std::array<AttentionStep, kStepCount> steps{};
  for (size_t n = 0; n < kStepCount; ++n) steps[n] = static_cast<AttentionStep>(n);
  return steps;
}();

constexpr std::string_view kGradient = ".grad";

void replace(std::string& text, std::string_view name, std::string_view with) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + with.size())) {
    text.replace(at, name.size(), with);
  }
}

}  // namespace

const StepRow& step_row(AttentionStep step) { return row_of(step); }

std::span<const AttentionStep> all_steps() { return kAll; }

std::string_view step_name(AttentionStep step) { return row_of(step).name; }

std::optional<AttentionStep> find_step(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, &StepRow::name);
  if (found == kTable.end()) return std::nullopt;
  return static_cast<AttentionStep>(found - kTable.begin());
}

AttentionStep step_named(std::string_view name) {
  const std::optional<AttentionStep> found = find_step(name);
  if (found) return *found;
  std::string names;
  for (const StepRow& row : kTable) names.append(names.empty() ? "" : ", ").append(row.name);
  fail("step_named", "no step is called '", name, "'; there are ", names);
}

std::string gradient_name(AttentionStep step) { return std::string(step_name(step)).append(kGradient); }

AttentionStep step_of_gradient(std::string_view name) {
  check(name.ends_with(kGradient), "step_of_gradient", "'", name, "' is not the name of a gradient");
  return step_named(name.substr(0, name.size() - kGradient.size()));
}

bool is_query_by_key(AttentionStep step) { return row_of(step).dims.back() == t_k; }

std::string step_formula(AttentionStep step, std::span<const AttentionStep> sources, const FormulaTerms& terms) {
  std::string bias;
  if (sources.size() == 3) bias.append(" + ").append(step_name(sources[2]));
  std::string text(row_of(step).formula);
  if (!sources.empty()) replace(text, "{before}", step_name(sources.front()));
  const std::pair<std::string_view, std::string_view> fillings[] = {
      {"{bias}", bias},
      {"{role}", terms.role},
      {"{scaled}", terms.scaled},
      {"{cap}", terms.cap},
      {"{added}", terms.added},
      {"{hidden}", terms.hidden},
      {"{normaliser}", terms.normaliser},
      {"{remark}", terms.remark},
  };
  for (const auto& [name, with] : fillings) replace(text, name, with);
  return text;
}

std::string given_formula(AttentionStep step) { return std::string(step_name(step)) + ", as given"; }

}  // namespace heed
