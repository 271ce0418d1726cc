// Shared by the losses of elements (losses.cpp) and their kernels. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

enum class ElementLoss { kl, kl_log_target, binary_cross_entropy, squared_error };

// One row.
struct ElementLossRow {
  int64_t count = 0;
  const float* x = nullptr;
  const float* target = nullptr;
  const float* weight = nullptr;      // null: 1
  const float* pos_weight = nullptr;  // null: 1
};

// The sum of the losses; each one is also stored to `losses` unless that is null.
template <Isa>
double element_loss_kernel(ElementLoss loss, const ElementLossRow& row, float* losses);

// d_x = the loss's derivative · scale · d_loss, or d_x += … if `add`.
struct ElementLossGradient {
  float scale = 1.0F;
  const float* d_loss = nullptr;  // null: 1
  float* d_x = nullptr;
  bool add = false;
};

template <Isa>
void element_loss_gradient_kernel(ElementLoss loss, const ElementLossRow& row, const ElementLossGradient& gradient);

}  // namespace heed
