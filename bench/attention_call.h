// AttentionCall: the tensors of one attention case in its layout, and the calls that the bench times.
#pragma once

#include <vector>

#include "bench/row.h"
#include "heed/attention/insight.h"
#include "heed/core/tensor.h"

namespace heed::bench {

class AttentionCall {
 public:
  // Inputs with normal values, and with_backward also what backward reads and writes.
  AttentionCall(const AttentionSizes& sizes, bool with_backward);
  AttentionCall(const AttentionCall&) = delete;
  AttentionCall& operator=(const AttentionCall&) = delete;

  void forward();
  // After forward().
  void backward();
  // After forward(): entropy, largest score and the top 5 keys of every row.
  void insight();

 private:
  // q, k, v or their gradients: three arrays, or with layout qkv one [B, T, (H + 2 Hkv) · D] array, kept in `q`.
  struct Projections {
    Tensor q, k, v;
    View<float, 4> q_view, k_view, v_view;  // [B, T, H or Hkv, D]
  };
  Projections make_projections() const;
  void use_option(bool with_backward);
  RowStates<float> rows();
  AttentionInputs inputs() const { return {inputs_.q_view, inputs_.k_view, inputs_.v_view}; }

  AttentionSizes sizes_;
  Arena arena_;
  AttentionOptions options_;
  Projections inputs_;
  Projections gradients_;
  Tensor out_, d_out_;                    // in the order of the layout
  View<float, 4> out_view_, d_out_view_;  // [B, Tq, H, D]
  Tensor shift_, sum_;                    // [B, H, Tq]
  Tensor option_, d_option_;              // what the score option learns
  ScoreGradients score_gradients_;

  static constexpr int64_t kTopKeys = 5;
  Tensor entropy_, largest_;       // [B, H, Tq]
  Tensor top_weights_;             // [B, H, Tq, kTopKeys]
  std::vector<int64_t> top_keys_;  // the same
};

}  // namespace heed::bench
