#include "heed/explain/weight_laws.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace heed::explain {
namespace {

constexpr double kEqual = 1e-9;

// Each number may be off by its last digit: rounded, or cut.
std::optional<BrokenLaw> broken_sum(const GradedRow& row) {
  double sum = 0.0;
  double exact_sum = 0.0;
  double units = 0.0;
  for (const GradedNumber* each : row.numbers) {
    sum += each->claimed.value;
    exact_sum += each->exact;
    if (each->exact != 0.0) units += each->claimed.unit;
  }
  const bool sees_nothing = exact_sum == 0.0;
  if (sees_nothing || std::abs(sum - 1.0) <= units + kEqual) return std::nullopt;
  return BrokenLaw{"row_sum", row.head, row.row, "they sum to " + short_text(sum) + ", not to 1"};
}

// In the exact scores and in the claimed ones.
std::optional<BrokenLaw> broken_order(GradedRow row, const Matrices& exact, const Matrices& own) {
  const auto score = [](const Matrices& scores, const GradedNumber* n) {
    return scores.at(n->head, n->row, n->column);
  };
  std::stable_sort(row.numbers.begin(), row.numbers.end(),
                   [&](auto* a, auto* b) { return score(exact, a) < score(exact, b); });
  for (size_t n = 1; n < row.numbers.size(); ++n) {
    const GradedNumber* low = row.numbers[n - 1];
    const GradedNumber* high = row.numbers[n];
    if (std::isinf(score(exact, low))) continue;  // hidden: no score to compare
    const bool rises = score(exact, high) > score(exact, low) + kEqual && score(own, high) > score(own, low) + kEqual;
    // Rounding to the same digit keeps the order; to different digits it may not.
    const bool same_digits = high->claimed.unit == low->claimed.unit;
    const double tolerance = same_digits ? kEqual : high->claimed.unit + low->claimed.unit;
    if (!rises || high->claimed.value >= low->claimed.value - tolerance) continue;
    return BrokenLaw{"order", row.head, row.row,
                     "key " + std::to_string(high->column) + " has a larger score than key " +
                         std::to_string(low->column) + " and cannot have the smaller weight (" + high->claimed.text +
                         " against " + low->claimed.text + ")"};
  }
  return std::nullopt;
}

}  // namespace

std::vector<BrokenLaw> broken_laws(const WorkedExample& example, const StepValues& own, const GradedStep& weights) {
  std::vector<BrokenLaw> broken;
  const bool sums_to_one = example.rules.normaliser == Normaliser::softmax && example.rules.sinks.empty();
  const AttentionStep scores = last_score_step(example.rules);
  for (const GradedRow& row : rows_of(weights)) {
    const bool whole = static_cast<int64_t>(row.numbers.size()) == weights.shape.back();
    std::optional<BrokenLaw> law;
    if (sums_to_one && whole) law = broken_sum(row);
    if (!law && example.exact.has(scores)) law = broken_order(row, example.exact[scores], own[scores]);
    if (!law) continue;
    law->text = "weights, " + place_of(weights, row.head, row.row) + ": " + law->text;
    broken.push_back(std::move(*law));
  }
  return broken;
}

}  // namespace heed::explain
