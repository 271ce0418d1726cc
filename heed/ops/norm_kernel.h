// Shared by norm.cpp and its kernels. Internal to heed/ops.
#pragma once

#include "heed/ops/norm.h"
#include "heed/simd/isa.h"

namespace heed {

// A call of norm_forward, checked.
struct NormForwardCall {
  const NormInputs& inputs;
  const NormOutputs& outputs;
  NormKind kind;
  float eps;
};

// Rows begin … end - 1.
template <Isa>
void norm_forward_kernel(const NormForwardCall& call, int64_t begin, int64_t end);

// A call of norm_backward, checked.
struct NormBackwardCall {
  const NormSaved& saved;
  View<const float, 2> d_y;
  View<const float, 2> d_sum;
  const NormGradients& gradients;
};

// Rows begin … end - 1, of one block. d_gamma and d_beta [C] are added to: the sums of the block; null: not computed.
template <Isa>
void norm_backward_kernel(const NormBackwardCall& call, int64_t begin, int64_t end, float* d_gamma, float* d_beta);

}  // namespace heed
