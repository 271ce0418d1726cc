// Softmax and log-softmax of the rows of x [N, C]; rows are contiguous, N may be strided.
//
// With m the row's maximum: softmax e^(x-m) / Σ e^(x-m), log-softmax x - m - log Σ e^(x-m). The exponentials are added
// in blocks of a constant number of elements, and the block sums in double. -∞ gives the weight 0 and the logarithm
// -∞, also in a row of nothing but -∞, which is all zeros as a row of attention that sees no key (PyTorch has NaN). A
// row with a NaN or with +∞ is NaN. A row's bits do not depend on the other rows.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// y may be x itself.
void softmax_forward(View<const float, 2> x, View<float, 2> y);

// d_x (+)= y ∘ (d_y - Σ y ∘ d_y), with the y of forward. d_x may be d_y or y itself.
void softmax_backward(View<const float, 2> y, View<const float, 2> d_y, const InputGradient<2>& d_x);

// y may be x itself.
void log_softmax_forward(View<const float, 2> x, View<float, 2> y);

// d_x (+)= d_y - e^y Σ d_y, with the y of forward. d_x may be d_y or y itself.
void log_softmax_backward(View<const float, 2> y, View<const float, 2> d_y, const InputGradient<2>& d_x);

}  // namespace heed
