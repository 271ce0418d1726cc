// Sums over dimensions of a view: the gradients of broadcast inputs, sums and means. Internal to heed/ops.
//
// Order of arithmetic. An element of y is the sum of a sequence: the summed dimensions in row-major order. It is cut
// into blocks of a constant number of elements; a block is summed in f32, and blocks are added in order, in double, so
// that the error does not grow with the length. Slabs of a constant number of blocks are summed by different threads
// and added in order. The order depends on sizes only, not on strides or threads: where the innermost dimension is not
// summed and longer than 1, the sums of its elements run side by side in shorter blocks.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

struct BroadcastSum {
  View<const float, 4> x;
  View<const float, 4> factor{};  // of the shape of x (strides of 0 repeat); null: 1
  double scale = 1.0;             // of the sum
};

// y (+)= scale · Σ x ∘ factor over the dimensions that have size 1 in y; the others are those of x. The callers have
// checked the views.
void broadcast_sum(const BroadcastSum& sum, const InputGradient<4>& y);

}  // namespace heed
