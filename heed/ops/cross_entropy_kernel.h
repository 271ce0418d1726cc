// Shared by the cross-entropies and their kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// What the loss of a row of logits is made of.
struct RowSoftmax {
  float max = 0.0F;
  double sum = 0.0;     // Σ_c e^(logit[c] - max)
  double spread = 0.0;  // Σ_c weight[c] (max - logit[c]), for label smoothing; 0 without
};

struct SmoothingWeights {
  bool smooths = false;
  const float* weight = nullptr;  // [V]; null: 1
};

template <Isa>
RowSoftmax row_softmax_kernel(int64_t classes, const float* logits, const SmoothingWeights& smoothing);

// d_logits[c] = scale · e^(logits[c] - max) - uniform · weight[c]: the gradient of a row but for its label.
struct RowGradient {
  float max = 0.0F;
  float scale = 0.0F;
  float uniform = 0.0F;           // 0 without label smoothing
  const float* weight = nullptr;  // [V]; null: 1
  bool add = false;               // d_logits += … instead
};

template <Isa>
void row_gradient_kernel(int64_t classes, const float* logits, const RowGradient& gradient, float* d_logits);

}  // namespace heed
