// Gathering along the middle: y(o, j, i) = x(o, index(o, j, i), i), as torch.gather.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// x [outer, n, inner], index [outer, k, inner] with values in 0 … n-1 → y [outer, k, inner]. Views may have any
// strides; an index repeated by a stride of 0 gathers whole rows.
void gather_forward(View<const float, 3> x, View<const int64_t, 3> index, View<float, 3> y);

// d_x(o, index(o, j, i), i) += d_y(o, j, i), in the order of j; without `add`, d_x begins with 0.
void gather_backward(View<const int64_t, 3> index, View<const float, 3> d_y, const InputGradient<3>& d_x);

}  // namespace heed
