// One attention problem with its data, its result from the library and its result from the double reference.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/attention/reference_row.h"
#include "heed/core/tensor.h"

namespace heed::test {

enum class Layout {
  bthd,       // [B, T, H, D], contiguous
  bhtd,       // [B, H, T, D], contiguous
  fused_qkv,  // q, k and v side by side in one row [B, T, (H + Hkv) Dk + Hkv Dv]; needs Tq == Tk, else as bthd
};

struct AttentionSizes {
  int64_t batch = 1;
  int64_t t_q = 1;
  int64_t t_k = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t d_k = 1;
  int64_t d_v = 1;

  std::string to_text() const;
};

// Owns q, k, v, d_out and everything computed from them. Views are [B, T, H, D] whatever the layout.
class AttentionCase {
 public:
  AttentionCase(const AttentionSizes& sizes, Layout layout, uint64_t seed);

  AttentionSizes sizes;
  AttentionOptions options;

  View<float, 4> q, k, v, d_out;      // inputs; tests may change values
  View<float, 4> out, d_q, d_k, d_v;  // results
  RowStates<float> rows;
  ScoreGradients score_gradients;  // those that backward shall write

  AttentionInputs inputs() const { return {q, k, v}; }
  void forward();
  void backward();       // after forward()
  void clear_results();  // NaN, so that what is not written shows

  // Is the key visible, by the mask and by the bias?
  bool visible(int64_t b, int64_t head, int64_t query, int64_t key) const;

 private:
  View<float, 4> make(int64_t length, int64_t heads, int64_t width, Layout layout, uint64_t seed);

  std::vector<Tensor> tensors_;
};

// The values of all results, row-major.
struct AttentionResults {
  std::vector<float> out, shift, sum;  // [B, Tq, H, Dv], [B, H, Tq] twice
  std::vector<float> d_q, d_k, d_v;    // [B, T, H or Hkv, D]
};

// Runs forward and backward on fresh results: whatever was in them before is NaN when they begin.
AttentionResults run(AttentionCase& c);

// The same problem in double, for plain maths.
struct ReferenceInputs {
  explicit ReferenceInputs(const AttentionCase& c);
  ReferenceInputs(const ReferenceInputs&) = delete;
  ReferenceInputs& operator=(const ReferenceInputs&) = delete;

  reference::Inputs<double> in;

 private:
  std::vector<double> q_, k_, v_, bias_, slopes_, table_, sinks_;
};

// Its results: [B, T, H, D] contiguous.
struct ReferenceResult {
  std::vector<double> out, log_sum_exp, d_q, d_k, d_v;
  // The most that the absolute values of the terms of an element of d_q and d_k add up to. Terms that cancel out (a row
  // with one visible key has no gradient at all) leave the rounding errors of their size.
  double d_q_terms = 0.0;
  double d_k_terms = 0.0;

  // Of the score options that are in use.
  std::vector<double> d_bias, d_slopes, d_table, d_sinks;
  double bias_terms = 0.0, slope_terms = 0.0, table_terms = 0.0, sink_terms = 0.0;
};
ReferenceResult reference_result(const AttentionCase& c);

// Its out alone.
std::vector<double> reference_heads(const AttentionCase& c);

// The values of a strided view in row-major order.
std::vector<float> values_of(View<const float, 4> view);
std::vector<float> values_of(View<const float, 3> view);
std::vector<float> values_of(View<const float, 2> view);
std::vector<float> values_of(View<const float, 1> view);

// max |a - b| / max |b|, the measure of the contract; 0 where both are empty or 0. NaN or ∞ in `a` gives ∞. Where
// max |b| is below `least`, that counts instead.
double relative_error(const std::vector<float>& a, const std::vector<double>& b, double least = 0.0);

// Bits of both are equal (so NaN equals the same NaN, and 0 differs from -0).
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace heed::test
