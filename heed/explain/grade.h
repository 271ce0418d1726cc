// Grades a worked example. Each claimed number is compared with the exact value and with what the claim's own earlier
// steps give, so that a slip is counted once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/explain/steps.h"
#include "heed/explain/written.h"

namespace heed::explain {

// A claimed step. Omitted numbers are empty.
struct ClaimedStep {
  AttentionStep step = AttentionStep::x;
  int64_t count = 0;  // shape as in Matrices
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<std::optional<WrittenNumber>> numbers;

  const std::optional<WrittenNumber>& at(int64_t n, int64_t i, int64_t j) const {
    return numbers[static_cast<size_t>((n * rows + i) * columns + j)];
  }
};

struct WorkedExample {
  std::string title;
  std::string source;
  StepRules rules;
  StepValues given;                // the exact inputs
  StepValues exact;                // compute_steps(rules, given)
  std::vector<ClaimedStep> steps;  // in the order of AttentionStep, each with the shape it has in `exact`
};

struct GradedNumber {
  int64_t head = 0;
  int64_t row = 0;
  int64_t column = 0;
  WrittenNumber claimed;
  double exact = 0.0;
  double carried = 0.0;  // from the claim's own earlier steps
  Verdict from_exact = Verdict::right;
  Verdict from_claim = Verdict::right;
  // from_exact, except that a wrong number that follows from the claim's earlier steps, if they have a slip, is not a
  // slip of its own (follows).
  Verdict verdict = Verdict::right;
};

struct GradedStep {
  AttentionStep step = AttentionStep::x;
  std::vector<int64_t> shape;
  std::string formula;
  std::vector<GradedNumber> numbers;  // row by row

  int64_t count(Verdict verdict) const;
};

// The claimed numbers of a row, in order, without the omitted ones.
struct GradedRow {
  int64_t head = 0;
  int64_t row = 0;
  std::vector<const GradedNumber*> numbers;
};
std::vector<GradedRow> rows_of(const GradedStep& step);

// "row 1", or "head 0, row 1" if there are several heads.
std::string place_of(const GradedStep& step, int64_t head, int64_t row);

// A certain finding about a claim that explains a slip.
struct Remark {
  std::string kind;  // for programs: "no_w_o"
  AttentionStep step = AttentionStep::x;
  std::string text;
};

struct Grading {
  std::vector<GradedStep> steps;
  std::vector<Remark> remarks;

  int64_t count(Verdict verdict) const;
  int64_t numbers() const;
  const GradedStep* find(AttentionStep step) const;  // null if it is not claimed
  // The first step with a wrong number, and that number; null if nothing is wrong.
  const GradedStep* first_wrong_step() const;
  const GradedNumber* first_wrong() const;
};

// The steps computed from the claim's own numbers.
struct CarriedSteps {
  StepValues own;      // as claimed; omitted numbers from `carried`
  StepValues carried;  // each step computed from `own`
};
CarriedSteps carry_on(const WorkedExample& example);

// The claimed steps that the claim's own `step` depends on: the nearest ones, and those before a step that is only
// partly claimed.
std::vector<AttentionStep> claimed_before(const WorkedExample& example, AttentionStep step);

Grading grade(const WorkedExample& example);

}  // namespace heed::explain
