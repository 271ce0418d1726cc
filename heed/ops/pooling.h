// Pooling: maxima and means over windows of x [N, H, W, C], and over the whole of a sequence.
//
// A sequence [B, T, C] is pooled over time as [B, T, 1, C], an image in PyTorch's layout [B, C, H, W] as
// [B · C, H, W, 1]. All views are contiguous. Maxima are the first of their window; NaN counts as the largest. Each
// element of a result, and of d_x, is a sum in the order of positions by one thread.
#pragma once

#include <cstdint>

#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// Windows over H and W.
struct PoolWindow {
  Shape<2> kernel{1, 1};
  Shape<2> stride{1, 1};
  Shape<2> padding{0, 0};  // at each end; at most half of the kernel. Never a maximum; counts as 0 in a mean
};

// The shape of y, [N, positions, positions, C]: ⌊(size + 2 padding - kernel) / stride⌋ + 1 positions. What does not fit
// is an Error that names `function`.
Shape<4> pool_shape(const char* function, const Shape<4>& x, const PoolWindow& window);

// y = the maximum of each window, and index, of the shape of y, receives where it is, as h · W + w.
void max_pool_forward(View<const float, 4> x, const PoolWindow& window, View<float, 4> y, View<int32_t, 4> index);

// d_x (+)= d_y at the index, 0 elsewhere.
void max_pool_backward(View<const float, 4> d_y, View<const int32_t, 4> index, const InputGradient<4>& d_x);

// y = the sum of each window divided by the size of the kernel: zeros of padding count, as by PyTorch's default.
void avg_pool_forward(View<const float, 4> x, const PoolWindow& window, View<float, 4> y);

// d_x (+)= the sum of d_y over the windows that cover an element, divided by the size of the kernel.
void avg_pool_backward(View<const float, 4> d_y, const PoolWindow& window, const InputGradient<4>& d_x);

// The maximum over the first lengths[b] of T rows: x [B, T, C] → y [B, C], with its row in index [B, C]. Lengths are
// 0 … T; null: all T. A length of 0 gives 0, at index -1.
void global_max_forward(View<const float, 3> x, View<const int64_t, 1> lengths, View<float, 2> y,
                        View<int64_t, 2> index);

// d_x (+)= d_y at the index, 0 elsewhere.
void global_max_backward(View<const float, 2> d_y, View<const int64_t, 2> index, const InputGradient<3>& d_x);

// The mean of the same rows, in the order of heed/ops/reduce.h; 0 where there are none.
void global_mean_forward(View<const float, 3> x, View<const int64_t, 1> lengths, View<float, 2> y);

// d_x (+)= d_y / lengths[b] for the rows that count, 0 for the others.
void global_mean_backward(View<const float, 2> d_y, View<const int64_t, 1> lengths, const InputGradient<3>& d_x);

}  // namespace heed
