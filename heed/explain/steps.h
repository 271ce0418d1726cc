// The steps of attention in double, one at a time. A step is computed from the values of the steps before it, whether
// those were computed, given or claimed. This allows a worked example to be graded both from its inputs and from its
// own previous line.
//
// One item (B = 1). Letters: Tq, Tk query and key length, H and Hkv query and key/value heads, Dk, Dv widths of a head,
// C widths of the inputs. Row vectors times matrices: q = x W_Q.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/score_options.h"
#include "heed/attention/step_table.h"
#include "heed/core/error.h"

namespace heed::explain {

// Steps here have no batch dimension: x is [Tq, C], q is H × [Tq, Dk], scores are H × [Tq, Tk]. A bias is one row, with
// as many numbers as its weight has columns.

// True for x, context and parameters, which are not computed.
bool is_input(AttentionStep step);
// True if explain covers the step: all but `dropped`, since it shows attention without dropout.
bool is_explained(AttentionStep step);

// One matrix per head, or a single one: [count, rows, columns].
struct Matrices {
  int64_t count = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  Matrices() = default;
  Matrices(int64_t count_, int64_t rows_, int64_t columns_)
      : count(count_), rows(rows_), columns(columns_), values(static_cast<size_t>(count_ * rows_ * columns_)) {}

  bool empty() const { return values.empty(); }
  size_t index(int64_t n, int64_t i, int64_t j) const { return static_cast<size_t>((n * rows + i) * columns + j); }
  double& at(int64_t n, int64_t i, int64_t j) { return values[index(n, i, j)]; }
  double at(int64_t n, int64_t i, int64_t j) const { return values[index(n, i, j)]; }
  bool same_shape(const Matrices& other) const {
    return count == other.count && rows == other.rows && columns == other.columns;
  }
  // [rows, columns], or [count, rows, columns] if there are several.
  std::vector<int64_t> shape() const;
};

// The values of the steps; an empty one is absent.
class StepValues {
 public:
  Matrices& operator[](AttentionStep step) { return values_[static_cast<size_t>(step)]; }
  const Matrices& operator[](AttentionStep step) const { return values_[static_cast<size_t>(step)]; }
  bool has(AttentionStep step) const { return !(*this)[step].empty(); }

 private:
  std::array<Matrices, kStepCount> values_;
};

// Everything about a computation except its inputs.
struct StepRules {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  std::optional<double> scale{};  // unset: 1/√Dk
  std::optional<double> soft_cap{};
  Matrices bias{};              // [1 or H, Tq, Tk], -∞ hides a key; empty: none. ALiBi is given as a bias
  Matrices visible{};           // [1 or H, Tq, Tk], 1 where a query sees a key, else 0; empty: no mask
  std::vector<double> sinks{};  // [H]: a logit in the softmax's denominator without a value; empty: none
  Normaliser normaliser = Normaliser::softmax;
};

// A size mismatch: which step or parameter causes it, and why.
class StepError : public Error {
 public:
  StepError(AttentionStep step, const std::string& message) : Error(message), step_(step) {}
  AttentionStep step() const { return step_; }

 private:
  AttentionStep step_;
};

// A step with more numbers is rejected, so that a small file cannot cause a large allocation.
inline constexpr int64_t kMostNumbers = int64_t{1} << 19;

// 1/√Dk unless given; empty if q is not known either.
std::optional<double> scale_of(const StepRules& rules, const StepValues& values);

// The last step before `weights` under these rules: scaled, capped, biased or masked.
AttentionStep last_score_step(const StepRules& rules);

// True if the step is part of this computation. capped, biased and masked are only if there is a soft cap, a bias or a
// mask.
bool is_taken(const StepRules& rules, AttentionStep step);

// The steps that `step` is computed from; the optional ones (context, biases) only if they are present.
std::vector<AttentionStep> sources_of(const StepRules& rules, const StepValues& values, AttentionStep step);

// Computes the step from its sources; empty if one of them is missing or the step is not taken. Throws a StepError if
// sizes do not match.
Matrices compute_step(const StepRules& rules, const StepValues& values, AttentionStep step);

// The given values and everything that can be computed from them.
StepValues compute_steps(const StepRules& rules, StepValues given);

// A row of weights: softmax (with a sink if there is one) or sigmoid of the scores. A score of -∞ is hidden and gets
// weight 0.
std::vector<double> normalise_row(const StepRules& rules, int64_t head, const double* scores, int64_t t_k);

// "q = x W_Q", with the step names of this computation; "q, as given" for given values.
std::string formula_of(const StepRules& rules, const StepValues& given, const StepValues& values, AttentionStep step);

}  // namespace heed::explain
