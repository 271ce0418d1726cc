// Sum, mean and maximum over the middle of x [outer, n, inner] → y [outer, inner]. All views are contiguous.
//
// Sums run in the order of heed/ops/broadcast_sum.h: blocks in f32, their sums in double, so that the error does not
// grow with n.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// y = Σ x. The sum of nothing is 0.
void sum_forward(View<const float, 3> x, View<float, 2> y);

// d_x (+)= d_y for each of the n.
void sum_backward(View<const float, 2> d_y, const InputGradient<3>& d_x);

// y = Σ x / n. The mean of nothing is NaN, as in PyTorch.
void mean_forward(View<const float, 3> x, View<float, 2> y);

// d_x (+)= d_y / n for each of the n.
void mean_backward(View<const float, 2> d_y, const InputGradient<3>& d_x);

// y = max x, and `index` [outer, inner] receives where in 0 … n-1 it is, the first place if there are several. NaN
// counts as the largest. n is at least 1.
void max_forward(View<const float, 3> x, View<float, 2> y, View<int64_t, 2> index);

// d_x (+)= d_y at the index, 0 elsewhere.
void max_backward(View<const float, 2> d_y, View<const int64_t, 2> index, const InputGradient<3>& d_x);

}  // namespace heed
