// The steps of attention in double, one at a time. A step is computed from the values of the steps before it, wherever
// those come from: computed themselves, given, or claimed by somebody. That is what lets a worked example be judged
// both from its inputs and from its own last line.
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

// Here a step has no batch: x is [Tq, C], q is H × [Tq, Dk], scores are H × [Tq, Tk]. A bias is one row, with as many
// numbers as its weight has columns.

// x, context and parameters: nothing computes them.
bool is_input(AttentionStep step);
// Does explain know the step? It shows attention without dropout: all but `dropped`.
bool is_explained(AttentionStep step);

// One matrix a head, or one: [count, rows, columns].
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
  // [rows, columns], or [count, rows, columns] where there are several.
  std::vector<int64_t> shape() const;
};

// The values of the steps; an empty one is not there.
class StepValues {
 public:
  Matrices& operator[](AttentionStep step) { return values_[static_cast<size_t>(step)]; }
  const Matrices& operator[](AttentionStep step) const { return values_[static_cast<size_t>(step)]; }
  bool has(AttentionStep step) const { return !(*this)[step].empty(); }

 private:
  std::array<Matrices, kStepCount> values_;
};

// Everything about a computation but its numbers.
struct StepRules {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  std::optional<double> scale{};  // unset: 1/√Dk
  std::optional<double> soft_cap{};
  Matrices bias{};              // [1 or H, Tq, Tk], -∞ hides a key; empty: none. ALiBi is given as a bias
  Matrices visible{};           // [1 or H, Tq, Tk], 1 where a query sees a key, else 0; empty: no mask
  std::vector<double> sinks{};  // [H]: a logit that joins the softmax and carries no value; empty: none
  Normaliser normaliser = Normaliser::softmax;
};

// Sizes that do not fit: which step or parameter is to blame, and why.
class StepError : public Error {
 public:
  StepError(AttentionStep step, const std::string& message) : Error(message), step_(step) {}
  AttentionStep step() const { return step_; }

 private:
  AttentionStep step_;
};

// A step of more numbers is refused, so that a small file cannot ask for much memory.
inline constexpr int64_t kMostNumbers = int64_t{1} << 19;

// 1/√Dk unless given; none where q is not known either.
std::optional<double> scale_of(const StepRules& rules, const StepValues& values);

// The last step before `weights` that these rules have: scaled, capped, biased or masked.
AttentionStep last_score_step(const StepRules& rules);

// Is the step part of this computation? capped, biased and masked are only where something caps, adds or hides.
bool is_taken(const StepRules& rules, AttentionStep step);

// The steps that `step` is computed from; those that may be absent (context, biases) only where they are there.
std::vector<AttentionStep> sources_of(const StepRules& rules, const StepValues& values, AttentionStep step);

// The step from the values of its sources; empty where one of them is missing or the step is not taken. Throws a
// StepError where sizes do not fit.
Matrices compute_step(const StepRules& rules, const StepValues& values, AttentionStep step);

// Given values and all that can be computed from them.
StepValues compute_steps(const StepRules& rules, StepValues given);

// The row of weights: softmax (with a sink where there is one) or sigmoid of scores, -∞ hidden: weight 0.
std::vector<double> normalise_row(const StepRules& rules, int64_t head, const double* scores, int64_t t_k);

// "q = x W_Q", with the names that this computation has; "q, as given" for what was given.
std::string formula_of(const StepRules& rules, const StepValues& given, const StepValues& values, AttentionStep step);

}  // namespace heed::explain
