// The last linear map of a model and its cross-entropy in one: loss = cross_entropy(x Wᵀ + b, labels), and its
// gradients in the same pass. The logits exist for kLinearCrossEntropyRows rows at a time, and become their own
// gradient in place, so that [N, V] numbers are never stored.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/cross_entropy.h"
#include "heed/ops/linear.h"
#include "heed/ops/matmul.h"

namespace heed {

// As many rows as one chain of matmul has steps: the sums over rows of d_W then have the bits of a product over all
// rows, if they start from 0.
inline constexpr int64_t kLinearCrossEntropyRows = kBlockDepth;

struct LinearCrossEntropyInputs {
  View<const float, 2> x;         // [N, C]
  View<const float, 2> weight;    // [V, C]
  View<const float, 1> bias{};    // [V]; null: none
  View<const int64_t, 1> labels;  // [N]
};

// loss: [N] without a reduction, else [1], as in heed/ops/cross_entropy.h. `gradients` receives those that are not
// null, for d_loss = 1 (without a reduction, for 1 in each row): the caller multiplies them by another d_loss. They
// must not share memory with the inputs. Loss and gradients have the bits of linear_forward, cross_entropy_forward and
// their backwards, d_W if it was 0 before; d_b, whose blocks are added in f32, is close to theirs.
void linear_cross_entropy(const LinearCrossEntropyInputs& inputs, View<float, 1> loss,
                          const CrossEntropyOptions& options = {}, const LinearGradients& gradients = {},
                          Arena* arena = nullptr);

}  // namespace heed
