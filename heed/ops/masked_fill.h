// y = value where the mask is true, x elsewhere.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// x and y have one shape; the mask is broadcast to it (sizes of 1, or strides of 0). y may be x itself. Views may have
// any strides.
void masked_fill_forward(View<const float, 4> x, View<const bool, 4> mask, float value, View<float, 4> y);

// d_x (+)= d_y where the mask is false, 0 elsewhere, even if d_y is not finite there. d_x may be d_y itself.
void masked_fill_backward(View<const bool, 4> mask, View<const float, 4> d_y, const InputGradient<4>& d_x);

}  // namespace heed
