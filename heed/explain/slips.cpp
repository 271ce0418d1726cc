#include "heed/explain/slips.h"

#include <algorithm>
#include <cmath>

namespace heed::explain {
namespace {

using Numbers = std::vector<const GradedNumber*>;

bool is_exact(Verdict verdict) { return verdict == Verdict::right || verdict == Verdict::cut; }

// Digits that numbers have in all. Few digits fit many formulas by chance.
bool has_enough_digits(const Numbers& numbers) {
  constexpr double kEnough = 1.5;
  double digits = 0.0;
  for (const GradedNumber* each : numbers) {
    if (std::isfinite(each->claimed.value)) {
      digits += std::log10(std::abs(each->claimed.value) / each->claimed.unit + 1.0);
    }
  }
  return digits >= kEnough;
}

// Are the numbers those of `other`, to their last digits?
bool fits(const Numbers& numbers, const Matrices& other) {
  return has_enough_digits(numbers) && std::all_of(numbers.begin(), numbers.end(), [&](const GradedNumber* each) {
           return is_exact(grade(each->claimed, other.at(each->head, each->row, each->column)));
         });
}

// The same for what the step should be, from the inputs or from the claim's earlier steps.
bool fits_itself(const Numbers& numbers) {
  const auto all = [&](auto verdict) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](const GradedNumber* each) { return is_exact(verdict(*each)); });
  };
  return all([](const GradedNumber& each) { return each.from_exact; }) ||
         all([](const GradedNumber& each) { return each.from_claim; });
}

Numbers all_numbers(const GradedStep& step) {
  Numbers numbers;
  for (const GradedNumber& each : step.numbers) numbers.push_back(&each);
  return numbers;
}

std::string quote(AttentionStep step) { return std::string(step_name(step)); }

// ", row 0; row 1": where rows are, or nothing where it is the whole step.
std::string list_rows(const GradedStep& step, const std::vector<GradedRow>& rows) {
  size_t numbers = 0;
  for (const GradedRow& each : rows) numbers += each.numbers.size();
  if (static_cast<int64_t>(numbers) == element_count(step.shape)) return "";
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t n = 0; n < std::min(rows.size(), kMost); ++n) {
    text += (n == 0 ? ", " : "; ") + place_of(step, rows[n].head, rows[n].row);
  }
  if (rows.size() > kMost) text += " and " + std::to_string(rows.size() - kMost) + " more";
  return text;
}

class SlipFinder {
 public:
  SlipFinder(const WorkedExample& example, const CarriedSteps& steps, const Grading& grading)
      : example_(example), steps_(steps), grading_(grading) {}

  std::vector<Remark> find() {
    for (const GradedStep& step : grading_.steps) {
      find_other_step(step);
      find_transposed(step);
      if (step.step == AttentionStep::weights) find_other_weights(step);
      find_large_numbers(step);
      find_carried(step);
    }
    return std::move(remarks_);
  }

 private:
  const WorkedExample& example_;
  const CarriedSteps& steps_;
  const Grading& grading_;
  std::vector<Remark> remarks_;

  void add(const char* kind, AttentionStep step, const std::string& text) { remarks_.push_back({kind, step, text}); }

  // Rows with something wrong that have the numbers of the same row of another step, looked for backwards from this
  // step, then behind it.
  void find_other_step(const GradedStep& step) {
    if (is_input(step.step)) return;
    for (size_t n = 1; n < kStepCount; ++n) {
      const auto other = static_cast<AttentionStep>((static_cast<size_t>(step.step) + kStepCount - n) % kStepCount);
      const Matrices& values = example_.exact[other];
      if (!values.same_shape(example_.exact[step.step])) continue;
      // With one head concat says nothing that heads does not.
      if (other == AttentionStep::concat && values.same_shape(example_.exact[AttentionStep::heads])) continue;
      if (is_input(other) && other != AttentionStep::x && other != AttentionStep::context) continue;
      std::vector<GradedRow> rows;
      for (GradedRow& row : rows_of(step)) {
        const bool wrong = std::any_of(row.numbers.begin(), row.numbers.end(),
                                       [](auto* each) { return each->verdict == Verdict::wrong; });
        if (wrong && row.numbers.size() >= 2 && fits(row.numbers, values)) rows.push_back(std::move(row));
      }
      if (!rows.empty()) return describe_other_step(step, other, list_rows(step, rows));
    }
  }

  void describe_other_step(const GradedStep& step, AttentionStep other, const std::string& rows) {
    const std::string what = quote(step.step) + rows + ": these are the numbers of " + quote(other);
    if (step.step == AttentionStep::out && (other == AttentionStep::concat || other == AttentionStep::heads)) {
      add("no_w_o", step.step, what + "; the product with W_O was left out");
    } else if (step.step == AttentionStep::scaled && other == AttentionStep::scores) {
      add("not_scaled", step.step, what + ", which were not scaled");
    } else if (step.step == AttentionStep::scores && other == AttentionStep::scaled) {
      add("scaled_twice", step.step, what + ": scaled already");
    } else {
      add("other_step", step.step, what);
    }
  }

  // Weights are [inputs, outputs] here; PyTorch has them transposed.
  void find_transposed(const GradedStep& step) {
    const std::span<const AttentionStep> sources = step_row(step.step).sources;
    if (sources.size() < 2 || step_row(sources[1]).kind != StepKind::parameter) return;
    const AttentionStep weight = sources[1];
    const Matrices& values = example_.given[weight];
    if (example_.given.has(step.step) || values.rows != values.columns) return;
    if (fits_itself(all_numbers(step))) return;
    Matrices transposed = values;
    for (int64_t i = 0; i < values.rows; ++i) {
      for (int64_t j = 0; j < values.columns; ++j) transposed.at(0, i, j) = values.at(0, j, i);
    }
    for (const StepValues* from : {&example_.exact, &steps_.own}) {
      StepValues changed = *from;
      changed[weight] = transposed;
      if (!fits(all_numbers(step), compute_step(example_.rules, changed, step.step))) continue;
      return add("transposed", step.step,
                 quote(step.step) + ": these are the numbers with " + quote(weight) + " transposed; rows of " +
                     quote(weight) + " belong to inputs, columns to outputs");
    }
  }

  // The weights by other formulas, from the scores `from`, and which one it is.
  void find_other_weights(const GradedStep& step) {
    const Numbers numbers = all_numbers(step);
    if (example_.given.has(step.step) || fits_itself(numbers)) return;
    const bool softmax = example_.rules.normaliser == Normaliser::softmax;
    StepRules other = example_.rules;
    other.normaliser = softmax ? Normaliser::sigmoid : Normaliser::softmax;
    if (other.sinks.empty() || !softmax) {
      other.sinks.clear();
      if (fits_either(numbers, other)) {
        return add(softmax ? "sigmoid" : "softmax", step.step,
                   softmax ? "weights: these are the sigmoids of the scores; the file asks for the softmax"
                           : "weights: these are the softmax of the scores; the file asks for the sigmoid");
      }
    }
    if (find_scaling_slip(step, numbers) || example_.rules.visible.empty()) return;
    find_masking_slip(step, numbers);
  }

  // Do the numbers fit the weights that `rules` give, from the exact scores or from the claimed ones?
  bool fits_either(const Numbers& numbers, const StepRules& rules) const {
    return fits(numbers, compute_step(rules, example_.exact, AttentionStep::weights)) ||
           fits(numbers, compute_step(rules, steps_.own, AttentionStep::weights));
  }

  bool find_scaling_slip(const GradedStep& step, const Numbers& numbers) {
    if (!example_.exact.has(AttentionStep::scores) || grading_.find(AttentionStep::scaled) != nullptr) return false;
    StepRules rules = example_.rules;
    const std::optional<double> scale = scale_of(rules, example_.exact);
    if (!scale || *scale == 1.0) return false;
    rules.scale = 1.0;
    StepValues values;
    values[AttentionStep::scores] = steps_.own[AttentionStep::scores];
    Matrices unscaled = compute_steps(rules, values)[AttentionStep::weights];
    if (fits(numbers, unscaled)) {
      add("not_scaled", step.step, "weights: these come from the scores before scaling");
      return true;
    }
    for (double& each : unscaled.values) each *= *scale;
    if (!fits(numbers, unscaled)) return false;
    add("scaled_late", step.step, "weights: the scale was applied after the softmax, not before it");
    return true;
  }

  void find_masking_slip(const GradedStep& step, const Numbers& numbers) {
    StepRules open = example_.rules;
    open.visible = {};
    const auto visible = [&](int64_t h, int64_t i, int64_t j) {
      return example_.rules.visible.at(example_.rules.visible.count == 1 ? 0 : h, i, j);
    };
    const auto times_mask = [&](Matrices values) {
      for (int64_t h = 0; h < values.count; ++h) {
        for (int64_t i = 0; i < values.rows; ++i) {
          for (int64_t j = 0; j < values.columns; ++j) values.at(h, i, j) *= visible(h, i, j);
        }
      }
      return values;
    };
    StepValues values = steps_.own;
    const Matrices unmasked = compute_step(open, values, AttentionStep::weights);
    if (fits(numbers, times_mask(unmasked))) {
      return add("mask_late", step.step,
                 "weights: the mask was multiplied in after the softmax; the rows no longer sum to 1");
    }
    if (fits(numbers, unmasked)) return add("no_mask", step.step, "weights: the hidden keys were not hidden");
    const AttentionStep scores = last_score_step(open);
    values[scores] = times_mask(values[scores]);
    if (fits(numbers, compute_step(open, values, AttentionStep::weights))) {
      add("mask_times", step.step,
          "weights: the scores were multiplied by the mask before the softmax; a score of 0 still gets a weight");
    }
  }

  void find_large_numbers(const GradedStep& step) {
    constexpr double kLarge = -1e3;
    for (const GradedNumber& each : step.numbers) {
      if (!std::isinf(each.exact) || each.claimed.value > kLarge || std::isinf(each.claimed.value)) continue;
      return add("not_infinite", step.step,
                 quote(step.step) + ": " + each.claimed.text +
                     " stands for -inf; a hidden key is left out whatever the scores");
    }
  }

  // Numbers for which the inputs and the claimed steps before them say different things.
  void find_carried(const GradedStep& step) {
    const std::vector<AttentionStep> before = claimed_before(example_, step.step);
    const bool slip = std::any_of(before.begin(), before.end(), [&](AttentionStep each) {
      return grading_.find(each)->count(Verdict::wrong) + grading_.find(each)->count(Verdict::follows) > 0;
    });
    std::string names;
    for (const AttentionStep each : before) names += (names.empty() ? "" : " and ") + quote(each);
    Numbers early;
    Numbers not_carried;
    for (const GradedNumber& each : step.numbers) {
      const bool exact = each.from_exact != Verdict::wrong;
      const bool carried = each.from_claim != Verdict::wrong;
      if (!slip && !exact && carried) early.push_back(&each);
      if (slip && exact && !carried) not_carried.push_back(&each);
    }
    if (!early.empty()) {
      add("rounded_early", step.step,
          describe(step, early) + " is what the claimed " + names + " gives, with too few digits for it; it is " +
              beside_text(early.front()->exact, early.front()->claimed.unit) + and_more(early));
    }
    if (!not_carried.empty()) {
      add("not_carried", step.step,
          describe(step, not_carried) + " agrees with the inputs, though the claimed " + names + " would give " +
              beside_text(not_carried.front()->carried, not_carried.front()->claimed.unit) + and_more(not_carried));
    }
  }

  // "heads, row 0, column 1: 0.14", of the first.
  static std::string describe(const GradedStep& step, const Numbers& numbers) {
    const GradedNumber& first = *numbers.front();
    return quote(step.step) + ", " + place_of(step, first.head, first.row) + ", column " +
           std::to_string(first.column) + ": " + first.claimed.text;
  }

  static std::string and_more(const Numbers& numbers) {
    return numbers.size() == 1 ? "" : " (and so for " + std::to_string(numbers.size() - 1) + " more)";
  }
};

}  // namespace

std::vector<Remark> find_slips(const WorkedExample& example, const CarriedSteps& steps, const Grading& grading) {
  return SlipFinder(example, steps, grading).find();
}

}  // namespace heed::explain
