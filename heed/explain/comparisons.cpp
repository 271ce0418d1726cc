#include "heed/explain/comparisons.h"

#include <functional>
#include <utility>

#include "heed/explain/attend_run.h"

namespace heed::explain {
namespace {

// A [rows, columns] step of the first item and head of a case.
Tensor matrix_of(const AttendCase& given, AttentionStep step) {
  Trace trace({{std::string(step_name(step))}, 0, {}});
  const AttendRun run(given, {0, sizes_of(given).t_q}, &trace);
  const Tensor& values = trace.find(step_name(step))->values;
  Tensor made({values.shape()[2], values.shape()[3]});
  std::copy_n(values.values().data(), made.count(), made.values().data());
  return made;
}

// value(i, j) of a [rows, columns] matrix.
Tensor filled(int64_t rows, int64_t columns, const std::function<float(int64_t, int64_t)>& value) {
  Tensor made({rows, columns});
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) made.view<2>()(i, j) = value(i, j);
  }
  return made;
}

// softmax of the rows of given scores: attention with k = 1 (the identity) and scale 1 has just these as its scores.
Tensor softmax_of(const Tensor& scores, bool causal) {
  const int64_t n = scores.shape()[0];
  AttendCase given;
  given.q = Tensor({1, n, 1, n});
  std::copy_n(scores.values().data(), scores.count(), given.q.values().data());
  given.k = given.v = Tensor({1, n, 1, n});
  for (int64_t i = 0; i < n; ++i) given.k.view<4>()(0, i, 0, i) = 1.0F;
  given.scale = 1.0F;
  given.causal = causal;
  return matrix_of(given, AttentionStep::weights);
}

Comparison comparison(std::string title, std::string formula, bool right, std::string why, Tensor values) {
  std::vector<float> sums;
  const View<const float, 2> rows = std::as_const(values).view<2>();
  for (int64_t i = 0; i < rows.size(0); ++i) {
    double sum = 0.0;
    for (int64_t j = 0; j < rows.size(1); ++j) sum += static_cast<double>(rows(i, j));
    sums.push_back(static_cast<float>(sum));
  }
  return {std::move(title), std::move(formula), right, std::move(why), std::move(values), std::move(sums)};
}

float causal_factor(int64_t i, int64_t j) { return j <= i ? 1.0F : 0.0F; }

std::vector<Comparison> build_up(const AttendCase& given) {
  const Tensor scores = matrix_of(given, AttentionStep::scores);
  std::vector<Comparison> result;
  result.push_back(comparison("scores as weights", "Y = (D Dᵀ) D", false,
                              "rows do not sum to 1, so Y grows with the number and the length of the rows of D",
                              scores));
  result.push_back(
      comparison("then a softmax", "Y = softmax(D Dᵀ) D", false,
                 "a weighted mean at last, but the wider the rows, the larger the scores, and the more the "
                 "softmax leaves to the largest alone",
                 softmax_of(scores, false)));
  result.push_back(comparison("then the division by √d", "Y = softmax(D Dᵀ / √d) D", true,
                              "the scores keep their size whatever the width: attention",
                              matrix_of(given, AttentionStep::weights)));
  return result;
}

std::vector<Comparison> three_masks(const AttendCase& given) {
  const Tensor scaled = matrix_of(given, AttentionStep::scaled);
  const int64_t n = scaled.shape()[0];
  const Tensor weights = softmax_of(scaled, false);
  const auto hidden_after = [&](int64_t i, int64_t j) { return weights.view<2>()(i, j) * causal_factor(i, j); };
  const auto hidden_before = [&](int64_t i, int64_t j) { return scaled.view<2>()(i, j) * causal_factor(i, j); };
  std::vector<Comparison> result;
  result.push_back(comparison("multiply by 1 and 0 after the softmax", "weights = softmax(scaled) ∘ mask", false,
                              "rows no longer sum to 1: what the hidden keys had is lost, not shared out",
                              filled(n, n, hidden_after)));
  result.push_back(comparison("multiply by 1 and 0 before the softmax", "weights = softmax(scaled ∘ mask)", false,
                              "a score of 0 hides nothing: it still gets weight e^0 = 1 before the division",
                              softmax_of(filled(n, n, hidden_before), false)));
  result.push_back(comparison("−∞ before the softmax", "weights = softmax(scaled, −∞ where a key is hidden)", true,
                              "hidden keys get exactly 0, and every row sums to 1", softmax_of(scaled, true)));
  result.push_back(comparison("the causal mask itself, four tokens", "mask = 1 where key <= query", true,
                              "row i sees keys 0 to i", filled(4, 4, causal_factor)));
  result.push_back(comparison("all scores 1, three tokens", "weights = softmax(1, −∞ where a key is hidden)", true,
                              "equal scores share the row equally among the visible keys",
                              softmax_of(filled(3, 3, [](int64_t, int64_t) { return 1.0F; }), true)));
  return result;
}

}  // namespace

std::vector<Comparison> comparisons_of(const AttendCase& given) {
  switch (given.contrast) {
    case Contrast::build_up:
      return build_up(given);
    case Contrast::three_masks:
      return three_masks(given);
    default:
      return {};
  }
}

}  // namespace heed::explain
