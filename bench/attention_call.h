// AttentionCall: the tensors of one attention case in its layout, and the calls that the bench times.
#pragma once

#include "bench/row.h"
#include "heed/attention/attention.h"
#include "heed/core/tensor.h"

namespace heed::bench {

class AttentionCall {
 public:
  explicit AttentionCall(const AttentionSizes& sizes);
  AttentionCall(const AttentionCall&) = delete;
  AttentionCall& operator=(const AttentionCall&) = delete;

  void forward();

 private:
  // One tensor of q, k, v or of their gradients: three arrays, or one [B, T, (H + 2 Hkv) · D] array with layout qkv.
  struct Inputs {
    Tensor q, k, v;
    View<float, 4> q_view, k_view, v_view;  // [B, T, H, D]
  };
  Inputs make_inputs(uint64_t seed) const;

  AttentionSizes sizes_;
  Workspace workspace_;
  AttentionOptions options_;
  Inputs inputs_;
  Tensor out_;
  View<float, 4> out_view_;    // [B, Tq, H, D]
  Tensor reference_, sum_;     // [B, H, Tq]
};

}  // namespace heed::bench
