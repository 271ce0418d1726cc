// Dropout: y = x ∘ mask / (1 - p) + residual, where each element of the mask is 0 with probability p, else 1. The mask
// is drawn by counter (heed/ops/dropout_bits.h), so nothing is saved: backward draws it again.
#pragma once

#include <cstdint>

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

struct DropoutOptions {
  float probability = 0.0F;  // in [0, 1]: 0 keeps every element exactly, 1 drops all of them
  // What the mask is a function of, besides the element's row and column: the same for any number of threads, and again
  // after a resume.
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t site = 0;  // tells the calls of a step apart
};

// x [N, C] → y [N, C]; the residual [N, C] may be null. y may be x or the residual itself. Rows are contiguous, at most
// 2^30 wide.
void dropout_forward(const DropoutOptions& options, View<const float, 2> x, View<const float, 2> residual,
                     View<float, 2> y);

// d_x (+)= d_y ∘ mask / (1 - p), with the options of forward. d_x may be d_y itself. The gradient of the residual is
// d_y.
void dropout_backward(const DropoutOptions& options, View<const float, 2> d_y, const InputGradient<2>& d_x);

}  // namespace heed
