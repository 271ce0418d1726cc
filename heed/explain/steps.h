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
#include <string_view>
#include <vector>

#include "heed/attention/score_options.h"
#include "heed/core/error.h"

namespace heed::explain {

// The contract's names, in the order of the computation. Parameters stand before the step that uses them.
enum class StepId {
  x,        // [Tq, C]
  context,  // [Tk, C']; absent in self-attention
  w_q,      // [C, H·Dk]
  b_q,      // one row of H·Dk, as all biases here: as many numbers as the weight has columns
  q,        // H × [Tq, Dk]
  w_k,
  b_k,
  k,  // Hkv × [Tk, Dk]
  w_v,
  b_v,
  v,        // Hkv × [Tk, Dv]
  scores,   // H × [Tq, Tk], as all until weights
  scaled,   // scale · scores
  capped,   // where there is a soft cap
  biased,   // where there is a bias
  masked,   // where there is a mask: -∞ for hidden keys
  weights,  // softmax of each row, or sigmoid of each number
  heads,    // H × [Tq, Dv]
  concat,   // [Tq, H·Dv]
  w_o,      // [H·Dv, C_out]
  b_o,
  out,  // [Tq, C_out]
};
inline constexpr size_t kStepCount = static_cast<size_t>(StepId::out) + 1;

// "x", "W_Q", "b_Q", "q", …
std::string_view step_name(StepId step);
std::optional<StepId> step_of(std::string_view name);
// x, weights and biases: nothing computes them.
bool is_input(StepId step);

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
  Matrices& operator[](StepId step) { return values_[static_cast<size_t>(step)]; }
  const Matrices& operator[](StepId step) const { return values_[static_cast<size_t>(step)]; }
  bool has(StepId step) const { return !(*this)[step].empty(); }

 private:
  std::array<Matrices, kStepCount> values_;
};

// Everything about a computation but its numbers.
struct StepRules {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  std::optional<double> scale;  // unset: 1/√Dk
  std::optional<double> soft_cap;
  Matrices bias;              // [1 or H, Tq, Tk], -∞ hides a key; empty: none. ALiBi is given as a bias
  Matrices visible;           // [1 or H, Tq, Tk], 1 where a query sees a key, else 0; empty: no mask
  std::vector<double> sinks;  // [H]: a logit that joins the softmax and carries no value; empty: none
  Normaliser normaliser = Normaliser::softmax;
};

// Sizes that do not fit: which step or parameter is to blame, and why.
class StepError : public Error {
 public:
  StepError(StepId step, const std::string& message) : Error(message), step_(step) {}
  StepId step() const { return step_; }

 private:
  StepId step_;
};

// A step of more numbers is refused, so that a small file cannot ask for much memory.
inline constexpr int64_t kMostNumbers = int64_t{1} << 19;

// 1/√Dk unless given; none where q is not known either.
std::optional<double> scale_of(const StepRules& rules, const StepValues& values);

// The last step before `weights` that these rules have: scaled, capped, biased or masked.
StepId last_score_step(const StepRules& rules);

// Is the step part of this computation? capped, biased and masked are only where something caps, adds or hides.
bool is_taken(const StepRules& rules, StepId step);

// The steps that `step` is computed from; those that may be absent (context, biases) only where they are there.
std::vector<StepId> sources_of(const StepRules& rules, const StepValues& values, StepId step);

// The step from the values of its sources; empty where one of them is missing or the step is not taken. Throws a
// StepError where sizes do not fit.
Matrices compute_step(const StepRules& rules, const StepValues& values, StepId step);

// Given values and all that can be computed from them.
StepValues compute_steps(const StepRules& rules, StepValues given);

// The row of weights: softmax (with a sink where there is one) or sigmoid of scores, -∞ hidden: weight 0.
std::vector<double> normalise_row(const StepRules& rules, int64_t head, const double* scores, int64_t t_k);

// "q = x W_Q", with the names that this computation has; "q, as given" for what was given.
std::string formula_of(const StepRules& rules, const StepValues& given, const StepValues& values, StepId step);

}  // namespace heed::explain
