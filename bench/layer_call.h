// LayerCall: the tensors of one multi-head layer, self attention, and the calls that the bench times.
#pragma once

#include <optional>

#include "bench/row.h"
#include "heed/attention/multihead.h"
#include "heed/core/tensor.h"
#include "heed/nn/multihead_weights.h"

namespace heed::bench {

class LayerCall {
 public:
  // An input with normal values, weights that keep its variance, and with_backward also what backward reads and writes.
  LayerCall(const AttentionSizes& sizes, bool with_backward);
  LayerCall(const LayerCall&) = delete;
  LayerCall& operator=(const LayerCall&) = delete;

  void forward();
  // After forward(): every gradient, that of the input included.
  void backward();

 private:
  // The parameters or their gradients.
  MultiHeadWeights make_parameters() const;

  AttentionSizes sizes_;
  Arena arena_;
  std::optional<RotaryTable> rotary_;
  MultiHeadOptions options_;
  MultiHeadState state_;
  Tensor x_, y_, d_x_, d_y_;  // [B, T, C]
  MultiHeadWeights parameters_, gradients_;
  PackedMultiHead packed_;
};

}  // namespace heed::bench
