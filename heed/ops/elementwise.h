// Elementwise sums, differences and products with broadcasting, and multiples.
//
// Broadcasting is NumPy's and PyTorch's, on rank 4 (lead with sizes of 1 for fewer dimensions): a size of 1 of an input
// stands for the output's size. Views may have any strides. The gradient of a broadcast input is summed over the
// broadcast dimensions in the order of heed/ops/broadcast_sum.h: an element has the same bits for any number of
// threads and any strides.
#pragma once

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

enum class BinaryOp { add, sub, mul };

// y = a ∘ b, where y has the broadcast shape of a and b. y may be a or b itself.
void binary_forward(BinaryOp op, View<const float, 4> a, View<const float, 4> b, View<float, 4> y);

// d_a and d_b, of the shapes of a and b: for add d_a (+)= d_y and d_b (+)= d_y, for sub d_b (+)= -d_y, for mul
// d_a (+)= d_y ∘ b and d_b (+)= d_y ∘ a, each summed over the dimensions in which that input was broadcast. Only mul
// reads the values of a and b; add and sub use their shapes. d_y and the inputs must not share memory with a gradient,
// except that a gradient of d_y's shape may be d_y itself if it is the only one asked for.
void binary_backward(BinaryOp op, View<const float, 4> a, View<const float, 4> b, View<const float, 4> d_y,
                     const InputGradient<4>& d_a, const InputGradient<4>& d_b);

// y (+)= factor · x, with x broadcast to the shape of y. y may be x itself.
void scale_add(float factor, View<const float, 4> x, const InputGradient<4>& y);

}  // namespace heed
