#include "heed/explain/grade.h"

#include <algorithm>
#include <cmath>

#include "heed/explain/slips.h"
#include "heed/explain/weight_laws.h"

namespace heed::explain {
namespace {

// Weights are between 0 and 1: an integer there means 0.0 or 1.0, and a unit of 1 would accept anything.
constexpr double kMostUnitOfWeights = 0.1;

WrittenNumber as_graded(AttentionStep step, WrittenNumber number) {
  if (step == AttentionStep::weights) number.unit = std::min(number.unit, kMostUnitOfWeights);
  return number;
}

// A hidden key has weight 0, not a small one.
bool is_hidden(const WorkedExample& example, const GradedNumber& number) {
  const Matrices& scores = example.exact[last_score_step(example.rules)];
  return !scores.empty() && std::isinf(scores.at(number.head, number.row, number.column));
}

Verdict grade_one(const WorkedExample& example, AttentionStep step, const GradedNumber& number, double exact) {
  if (step == AttentionStep::weights && exact == 0.0 && is_hidden(example, number)) {
    return number.claimed.value == 0.0 ? Verdict::right : Verdict::wrong;
  }
  return grade(number.claimed, exact);
}

GradedStep grade_step(const WorkedExample& example, const ClaimedStep& claim, const Matrices& carried) {
  const Matrices& exact = example.exact[claim.step];
  GradedStep graded{claim.step, exact.shape(), formula_of(example.rules, example.given, example.exact, claim.step), {}};
  for (int64_t h = 0; h < claim.count; ++h) {
    for (int64_t i = 0; i < claim.rows; ++i) {
      for (int64_t j = 0; j < claim.columns; ++j) {
        const std::optional<WrittenNumber>& written = claim.at(h, i, j);
        if (!written) continue;
        GradedNumber number{h,  i,  j, as_graded(claim.step, *written), exact.at(h, i, j), carried.at(h, i, j),
                            {}, {}, {}};
        number.from_exact = grade_one(example, claim.step, number, number.exact);
        number.from_claim = grade_one(example, claim.step, number, number.carried);
        graded.numbers.push_back(std::move(number));
      }
    }
  }
  return graded;
}

// In a row that breaks a law no number is off because something before it had been rounded.
void apply_laws(const std::vector<BrokenLaw>& laws, GradedStep& weights) {
  for (GradedNumber& each : weights.numbers) {
    const bool broken = std::any_of(laws.begin(), laws.end(),
                                    [&](const BrokenLaw& law) { return law.head == each.head && law.row == each.row; });
    if (!broken) continue;
    if (each.from_exact == Verdict::near) each.from_exact = Verdict::wrong;
    if (each.from_claim == Verdict::near) each.from_claim = Verdict::wrong;
  }
}

// True if a step that this one is computed from has a slip.
bool is_after_slip(const WorkedExample& example, const Grading& grading, AttentionStep step) {
  for (const AttentionStep each : claimed_before(example, step)) {
    const GradedStep& before = *grading.find(each);
    if (before.count(Verdict::wrong) + before.count(Verdict::follows) > 0) return true;
  }
  return false;
}

void decide(GradedStep& step, bool after_slip) {
  for (GradedNumber& each : step.numbers) {
    const bool follows = after_slip && each.from_exact == Verdict::wrong && each.from_claim != Verdict::wrong;
    each.verdict = follows ? Verdict::follows : each.from_exact;
  }
}

}  // namespace

std::vector<GradedRow> rows_of(const GradedStep& step) {
  std::vector<GradedRow> rows;
  for (const GradedNumber& each : step.numbers) {
    if (rows.empty() || rows.back().head != each.head || rows.back().row != each.row) {
      rows.push_back({each.head, each.row, {}});
    }
    rows.back().numbers.push_back(&each);
  }
  return rows;
}

std::string place_of(const GradedStep& step, int64_t head, int64_t row) {
  const std::string text = "row " + std::to_string(row);
  return step.shape.size() == 3 ? "head " + std::to_string(head) + ", " + text : text;
}

int64_t GradedStep::count(Verdict verdict) const {
  return std::count_if(numbers.begin(), numbers.end(), [=](const auto& each) { return each.verdict == verdict; });
}

int64_t Grading::count(Verdict verdict) const {
  int64_t sum = 0;
  for (const GradedStep& step : steps) sum += step.count(verdict);
  return sum;
}

int64_t Grading::numbers() const {
  int64_t sum = 0;
  for (const GradedStep& step : steps) sum += static_cast<int64_t>(step.numbers.size());
  return sum;
}

const GradedStep* Grading::find(AttentionStep step) const {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [=](const GradedStep& each) { return each.step == step; });
  return found == steps.end() ? nullptr : &*found;
}

const GradedStep* Grading::first_wrong_step() const {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [](const GradedStep& each) { return each.count(Verdict::wrong) > 0; });
  return found == steps.end() ? nullptr : &*found;
}

const GradedNumber* Grading::first_wrong() const {
  const GradedStep* step = first_wrong_step();
  if (step == nullptr) return nullptr;
  return &*std::find_if(step->numbers.begin(), step->numbers.end(),
                        [](const GradedNumber& each) { return each.verdict == Verdict::wrong; });
}

CarriedSteps carry_on(const WorkedExample& example) {
  CarriedSteps steps;
  for (const AttentionStep step : all_steps()) {
    Matrices& carried = steps.carried[step];
    // compute_step sees what is claimed; what was given stays as given until it is claimed itself.
    carried = example.given.has(step) ? example.given[step] : compute_step(example.rules, steps.own, step);
    steps.own[step] = carried;
    for (const ClaimedStep& claim : example.steps) {
      if (claim.step != step) continue;
      for (size_t at = 0; at < claim.numbers.size(); ++at) {
        if (claim.numbers[at]) steps.own[step].values[at] = claim.numbers[at]->value;
      }
    }
  }
  return steps;
}

std::vector<AttentionStep> claimed_before(const WorkedExample& example, AttentionStep step) {
  std::vector<AttentionStep> found;
  if (example.given.has(step)) return found;
  for (const AttentionStep source : sources_of(example.rules, example.exact, step)) {
    const auto claim = std::find_if(example.steps.begin(), example.steps.end(),
                                    [=](const ClaimedStep& each) { return each.step == source; });
    const bool claimed = claim != example.steps.end();
    if (claimed) found.push_back(source);
    const bool whole = claimed && std::all_of(claim->numbers.begin(), claim->numbers.end(),
                                              [](const auto& number) { return number.has_value(); });
    if (whole) continue;
    for (const AttentionStep each : claimed_before(example, source)) {
      if (std::find(found.begin(), found.end(), each) == found.end()) found.push_back(each);
    }
  }
  return found;
}

Grading grade(const WorkedExample& example) {
  const CarriedSteps steps = carry_on(example);
  Grading grading;
  for (const ClaimedStep& claim : example.steps) {
    GradedStep graded = grade_step(example, claim, steps.carried[claim.step]);
    if (claim.step == AttentionStep::weights) {
      const std::vector<BrokenLaw> laws = broken_laws(example, steps.own, graded);
      apply_laws(laws, graded);
      for (const BrokenLaw& law : laws) grading.remarks.push_back({law.kind, claim.step, law.text});
    }
    decide(graded, is_after_slip(example, grading, claim.step));
    grading.steps.push_back(std::move(graded));
  }
  for (Remark& slip : find_slips(example, steps, grading)) grading.remarks.push_back(std::move(slip));
  std::stable_sort(grading.remarks.begin(), grading.remarks.end(),
                   [](const Remark& a, const Remark& b) { return a.step < b.step; });
  return grading;
}

}  // namespace heed::explain
