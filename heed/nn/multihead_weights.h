// The parameters of a multi-head layer in memory of their own, and how they are loaded from a PyTorch state dict.
//
//     const MultiHeadWeights weights = load_multihead("model.safetensors", "encoder.layers.0.self_attn.");
//     multihead_forward(MultiHeadInputs::self(x.view<3>()), weights.parameters(), {.heads = 8}, state, y.view<3>());
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "heed/attention/multihead.h"
#include "heed/core/tensor.h"
#include "heed/io/file_error.h"

namespace heed {

// As PyTorch has them: weights [outputs, inputs], biases [outputs]. An empty tensor is absent. W_Q, W_K and W_V follow
// each other in one memory, so that they are one product where their inputs are one tensor.
struct MultiHeadWeights {
  Tensor in{};                          // the values of W_Q, then of W_K, then of W_V
  std::array<Shape<2>, 3> in_shapes{};  // of the three
  Tensor in_bias{};                     // likewise
  Tensor out{}, out_bias{};

  // Of matrices of their own, and without biases.
  static MultiHeadWeights of(const Tensor& q, const Tensor& k, const Tensor& v, Tensor out = {});

  bool given() const { return in.count() > 0; }

  // Views of the tensors, so there are none of a temporary.
  MultiHeadParameters<float> parameters() &;
  MultiHeadParameters<const float> parameters() const&;
  MultiHeadParameters<const float> parameters() const&& = delete;
};

// How many heads the layer has, which a state dict does not tell. 0: not stated, and not checked.
struct HeadCounts {
  int64_t heads = 0;
  int64_t kv_heads = 0;  // 0: as many as heads
};

// The layer whose names begin with `prefix` in a safetensors file, named as torch.nn.MultiheadAttention has them:
// in_proj_weight, or q_proj_weight, k_proj_weight and v_proj_weight; in_proj_bias; out_proj.weight, out_proj.bias.
// Biases may be absent; without out_proj.weight the layer stops at the concatenated heads. in_proj_weight is cut into
// three equal parts; where there are fewer key/value heads than heads, state both counts. Refusals are FileErrors.
MultiHeadWeights load_multihead(const std::string& path, const std::string& prefix = "", const HeadCounts& stated = {});

// What a user is told of heads that do not divide a width: "heads 5 does not divide the width 32 (32/5 = 6.4)", and the
// numbers that do.
io::FileProblem undivided_heads(int64_t width, int64_t heads);

}  // namespace heed
