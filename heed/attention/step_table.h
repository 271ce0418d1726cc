// The steps of attention in one table: name, shape, formula, meaning, and what each step comes from. Insight, traces,
// `heed attend`, `heed check`, completion and the page read it; none of them has a list of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heed/trace/dim.h"

namespace heed {

// In the order of the computation. Parameters stand before the step that uses them.
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
  int number = 0;                          // which of the layer's seven steps it belongs to; 0: what comes in
  std::span<const Dim> dims;               // its shape; a weight as row vectors take it, [inputs, outputs]
  std::span<const AttentionStep> sources;  // what it comes from: of a product the two factors, then a bias
  bool optional = false;                   // taken by some calls alone; in others its first source stands for it
  std::string_view formula;                // with {terms} that a call fills in (FormulaTerms)
  std::string_view meaning;                // one sentence for someone who learns
};

const StepRow& step_row(AttentionStep step);

// All steps, in their order.
std::span<const AttentionStep> all_steps();

std::string_view step_name(AttentionStep step);                 // "scores"
std::optional<AttentionStep> find_step(std::string_view name);  // none for a name that no step has
AttentionStep step_named(std::string_view name);                // an Error that lists the names for such a name
std::string gradient_name(AttentionStep step);                  // "scores.grad"
AttentionStep step_of_gradient(std::string_view name);          // the way back

// Is there a number for each query and key: is its shape [B, H, Tq, Tk]?
bool is_query_by_key(AttentionStep step);

// What `step` comes from in a call that does not take every step. taken(source) says whether a source is there. An
// optional one that is not is replaced by its own first source; another is left out.
template <class Taken>
std::vector<AttentionStep> taken_sources(AttentionStep step, Taken taken) {
  std::vector<AttentionStep> found;
  for (AttentionStep source : step_row(step).sources) {
    while (!taken(source) && step_row(source).optional) source = step_row(source).sources.front();
    if (taken(source)) found.push_back(source);
  }
  return found;
}

// What a call says in its formulas. {before} is the name of the first source, {bias} is " + b_Q" where a bias is among
// the sources.
struct FormulaTerms {
  std::string role;        // of x: "a row for each token"
  std::string scaled;      // "scores / √3"
  std::string cap;         // "30"
  std::string added;       // " + bias"
  std::string hidden;      // "-∞"
  std::string normaliser;  // "softmax"
  std::string remark;      // after the weights: ", the sink in the sum"
};

// "q = x W_Q + b_Q"; `sources` as taken_sources gives them.
std::string step_formula(AttentionStep step, std::span<const AttentionStep> sources, const FormulaTerms& terms);
// "q, as given", for what a call does not compute.
std::string given_formula(AttentionStep step);

}  // namespace heed
