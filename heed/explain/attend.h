// attend: runs an AttendCase and collects a Walkthrough, which the text, the JSON and the page all render.
//
// Only the requested queries are computed, at their positions in the sequence: a few rows of a long sequence are quick
// and small, and have the same bits as in the whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heed/explain/attend_case.h"

namespace heed::explain {

// What to look at.
struct AttendRequest {
  std::vector<std::string> steps{};  // names; empty: all
  std::optional<int64_t> head{};
  std::optional<QueryRange> rows{};  // queries
  int64_t top_k = 0;                 // how many of each row's most attended keys; 0: none
  bool gradients = false;
  const Tensor* d_out = nullptr;  // gradient of attend_output(), same shape; null: ones
};

// The keys that a row of weights attends to most.
struct TopKeys {
  int64_t b = 0, head = 0, row = 0;
  std::optional<float> entropy;  // in nats; none with sigmoid, whose weights are not a distribution
  float largest = 0.0F;          // masked score
  std::vector<int64_t> keys;
  std::vector<float> weights;
};

// An alternative computation of the weights, shown beside the right one.
struct Comparison {
  std::string title;
  std::string formula;
  bool right = false;
  std::string why;
  Tensor values;  // [rows, columns]
  std::vector<float> row_sums;
};

// The gradient of Σ d_out · output over all queries; the rows shown are recorded.
struct Gradient {
  Recording recording;                            // "q.grad", …, "W_Q.grad" as [inputs, outputs], for row vectors
  std::optional<double> finite_difference_error;  // against central differences in double; empty if not checked
  int64_t checked = 0;                            // entries of the recording that were checked
};

struct AttendChecks {
  // Rows with a NaN or an infinity: of heads, among rows_shown; of out, among items and rows shown (empty without W_O,
  // or if one head is requested). A nonfinite weight makes its row of heads nonfinite.
  int64_t rows_nonfinite = 0;
  std::optional<int64_t> out_rows_nonfinite;
  std::string first_row_nonfinite;         // "head 0, row 1": of heads, or of out if all heads are finite
  std::optional<double> row_sum_max_err;   // |Σ weights - 1| of finite rows; none with sigmoid or sinks, or where no
                                           // finite row sees a key
  std::optional<double> ref_max_abs_diff;  // weights, heads and out against double, where either is finite
  int64_t rows_checked = 0;                // of those shown, over batch and heads
  int64_t rows_shown = 0;
  bool from_projections = false;  // the double reference starts from x; else from q, k and v
  int64_t visible_pairs = 0;      // of the whole call
  int64_t pairs = 0;
  int64_t rows_without_key = 0;  // of the whole call
  std::string first_row_without_key;
};

struct Walkthrough {
  AttendSizes sizes;
  QueryRange rows;  // the rows shown
  std::vector<Recording> steps;
  Tensor visible;  // [B, heads, rows, Tk] of what is shown, 0 or 1; empty if nothing is hidden
  std::vector<TopKeys> top_keys;
  std::vector<Comparison> comparisons;
  std::vector<Gradient> gradients;
  AttendChecks checks;
  AttentionPlan plan;  // of the whole call
};

Walkthrough attend(const AttendCase& given, const AttendRequest& request);

// heads → [B, Tq, H, Dv], or the layer's out or concat → [B, Tq, C]: all queries, nothing recorded.
Tensor attend_output(const AttendCase& given);

// The formula of a step for this case: "scaled = scores / √3".
std::string step_formula(const AttendCase& given, AttentionStep step);

}  // namespace heed::explain
