// Convolution over time, forward and backward, on sequences with channels last: x [B, T, C]. PyTorch's Conv1d has
// [B, C, T]; the weight lies as there, [outputs, C / groups, kernel].
//
//     y[b, p, o] = act(bias[o] + Σ_j Σ_c x[b, p · stride + j · dilation - padding, c] · weight[o, c, j])
//
// with x = 0 outside of 0 … T-1; outputs of group g read the channels of group g. Nothing is unfolded: the k rows of a
// window lie side by side in memory, so that all windows of an item are a matrix with overlapping rows. With dilation
// or groups they do not, and y is a sum of products, one for each tap. Groups are computed one after the other, so that
// many small ones (depthwise convolution) are slow.
//
// Order of arithmetic: that of heed/ops/matmul_sum.h. The gradient of the weight is a sum over items in order. An item
// of y and of d_x has the bits it has alone. All views are contiguous.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/activation.h"
#include "heed/ops/gradient.h"

namespace heed {

struct Conv1dGeometry {
  int64_t stride = 1;    // from a window to the next
  int64_t padding = 0;   // rows of zeros at each end
  int64_t dilation = 1;  // from a tap of the window to the next
  int64_t groups = 1;    // divides the channels and the outputs
};

// The shape of y, [B, positions, outputs], for x [B, T, C] and a weight. What does not fit is an Error that names
// `function`.
Shape<3> conv1d_shape(const char* function, const Shape<3>& x, const Shape<3>& weight, const Conv1dGeometry& geometry);

struct Conv1dParameters {
  View<const float, 3> weight;  // [outputs, C / groups, kernel]
  View<const float, 1> bias{};  // [outputs]; null: none
  Conv1dGeometry geometry{};
};

struct Conv1dOptions {
  Activation activation = Activation::none;
  View<float, 3> derivative{};  // of the shape of y: receives act' of its argument, which backward needs where there is
                                // an activation; null: not kept
  Arena* arena = nullptr;       // for scratch; with it, calls after the first allocate nothing
};

// x [B, T, C] → y [B, positions, outputs].
void conv1d_forward(View<const float, 3> x, const Conv1dParameters& parameters, View<float, 3> y,
                    const Conv1dOptions& options = {});

// What backward needs of forward.
struct Conv1dSaved {
  View<const float, 3> x;             // [B, T, C]
  View<const float, 3> derivative{};  // as forward filled it; null without an activation
};

struct Conv1dGradients {
  InputGradient<3> x;       // [B, T, C]
  View<float, 3> weight{};  // [outputs, C / groups, kernel]: added to
  View<float, 1> bias{};    // [outputs]: added to
};

// From d_y [B, positions, outputs]; the bias of the parameters is not read. Gradients must not share memory with what
// is read.
void conv1d_backward(const Conv1dSaved& saved, const Conv1dParameters& parameters, View<const float, 3> d_y,
                     const Conv1dGradients& gradients, Arena* arena = nullptr);

}  // namespace heed
