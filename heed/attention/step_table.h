// The steps of attention in one table: name, shape, formula, meaning and sources of each step. Insight, traces, `heed
// attend`, `heed check`, shell completion and the page all read it; none of them has its own list.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/trace/dim.h"

namespace heed {

// In the order of computation. Parameters come before the step that uses them.
enum class AttentionStep {
  x,
  context,
  w_q,
  b_q,
  q,
  w_k,
  b_k,
  k,
  w_v,
  b_v,
  v,
  scores,
  scaled,
  capped,
  biased,
  masked,
  weights,
  dropped,
  heads,
  concat,
  w_o,
  b_o,
  out,
};
inline constexpr size_t kStepCount = static_cast<size_t>(AttentionStep::out) + 1;

enum class StepKind {
  input,      // tokens: x and context
  parameter,  // W_Q, b_Q, …
  computed,
};

struct StepRow {
  std::string_view name;  // the same everywhere
  StepKind kind = StepKind::computed;
  int number = 0;                          // which of the layer's seven stages it belongs to; 0: inputs
  std::span<const Dim> dims;               // its shape; a weight is [inputs, outputs], for row vectors
  std::span<const AttentionStep> sources;  // what it is computed from: the two factors of a product, then a bias
  bool optional = false;                   // only taken by some calls; otherwise its first source replaces it
  std::string_view formula;                // with {terms} that a call fills in (FormulaTerms)
  std::string_view meaning;                // one sentence for learners
};

const StepRow& step_row(AttentionStep step);

// All steps, in their order.
std::span<const AttentionStep> all_steps();

std::string_view step_name(AttentionStep step);                 // "scores"
std::optional<AttentionStep> find_step(std::string_view name);  // empty if there is no such step
AttentionStep step_named(std::string_view name);                // an Error that lists the names if there is none
std::string gradient_name(AttentionStep step);                  // "scores.grad"
AttentionStep step_of_gradient(std::string_view name);          // its inverse

// True if its shape is [B, H, Tq, Tk]: a number per query and key.
bool is_query_by_key(AttentionStep step);

// The sources of `step` in a call that does not take every step. taken(source) says whether a source is present. A
// missing optional source is replaced by its own first source; any other is left out.
template <class Taken>
std::vector<AttentionStep> taken_sources(AttentionStep step, Taken taken) {
  std::vector<AttentionStep> found;
  for (AttentionStep source : step_row(step).sources) {
    while (!taken(source) && step_row(source).optional) source = step_row(source).sources.front();
    if (taken(source)) found.push_back(source);
  }
  return found;
}

// The terms that a call fills into formulas. {before} is the name of the first source, {bias} is " + b_Q" if a bias is
// among the sources.
struct FormulaTerms {
  std::string role;        // of x: "a row for each token"
  std::string scaled;      // "scores / √3"
  std::string cap;         // "30"
  std::string added;       // " + bias"
  std::string hidden;      // "-∞"
  std::string normaliser;  // "softmax"
  std::string remark;      // after the weights: ", the sink in the sum"
};

// "q = x W_Q + b_Q"; `sources` from taken_sources.
std::string step_formula(AttentionStep step, std::span<const AttentionStep> sources, const FormulaTerms& terms);
// "q, as given", for a step that the call does not compute.
std::string given_formula(AttentionStep step);

}  // namespace heed
