// attend: runs an AttendCase and keeps everything that text, JSON and page show of it. They all render a Walkthrough.
//
// Only the queries asked for are computed, standing where they stand among all: a few rows of a long sequence are quick
// and small, and have the bits they have in the whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/explain/attend_case.h"

namespace heed::explain {

// What to look at.
struct AttendRequest {
  std::vector<std::string> steps{};  // by name; empty: all
  std::optional<int64_t> head{};
  std::optional<QueryRange> rows{};  // queries
  int64_t top_k = 0;                 // the most attended keys of each row; 0: not asked for
  bool gradients = false;
  const Tensor* d_out = nullptr;  // what arrives at attend_output(), of its shape; null: ones
};

// What a row of weights looks at.
struct TopKeys {
  int64_t b = 0, head = 0, row = 0;
  std::optional<float> entropy;  // nats; none with sigmoid, whose weights are no distribution
  float largest = 0.0F;          // masked score
  std::vector<int64_t> keys;
  std::vector<float> weights;
};

// Another way to the weights, beside the right one.
struct Comparison {
  std::string title;
  std::string formula;
  bool right = false;
  std::string why;
  Tensor values;  // [rows, columns]
  std::vector<float> row_sums;
};

// The gradient of Σ d_out · output, of all queries; those shown are recorded.
struct Gradient {
  Recording recording;                            // "q.grad", …, "W_Q.grad" as row vectors take it: [inputs, outputs]
  std::optional<double> finite_difference_error;  // against central differences in double; none where none was taken
  int64_t checked = 0;                            // entries of the recording that were
};

struct AttendChecks {
  // Rows with a number that is NaN or infinite: of heads, among rows_shown; of out, among items and rows shown (none
  // without W_O, or where one head is asked for). A weight that is not finite makes its row of heads so.
  int64_t rows_nonfinite = 0;
  std::optional<int64_t> out_rows_nonfinite;
  std::string first_row_nonfinite;         // "head 0, row 1": of heads, or where all of heads are finite, of out
  std::optional<double> row_sum_max_err;   // |Σ weights - 1| of finite rows; none with sigmoid or sinks, or where no
                                           // finite row sees a key
  std::optional<double> ref_max_abs_diff;  // weights, heads and out against double, where one of both is finite
  int64_t rows_checked = 0;                // of those shown, over batch and heads
  int64_t rows_shown = 0;
  bool from_projections = false;  // the double reference begins at x; else at q, k and v
  int64_t visible_pairs = 0;      // of the whole
  int64_t pairs = 0;
  int64_t rows_without_key = 0;  // of the whole
  std::string first_row_without_key;
};

struct Walkthrough {
  AttendSizes sizes;
  QueryRange rows;  // those shown
  std::vector<Recording> steps;
  Tensor visible;  // [B, heads, rows, Tk] of what is shown, 0 or 1; empty where nothing is hidden
  std::vector<TopKeys> top_keys;
  std::vector<Comparison> comparisons;
  std::vector<Gradient> gradients;
  AttendChecks checks;
  AttentionPlan plan;  // of the whole
};

Walkthrough attend(const AttendCase& given, const AttendRequest& request);

// heads → [B, Tq, H, Dv], or the layer's out or concat → [B, Tq, C]: all queries, nothing recorded.
Tensor attend_output(const AttendCase& given);

// The formula of a step in this case: "scaled = scores / √3".
std::string step_formula(const AttendCase& given, AttentionStep step);

}  // namespace heed::explain
