// Cross-entropy of logits and labels, with PyTorch's maths: for row n with label y, p = softmax(logits[n]), class
// weights w and label smoothing s,
//     loss[n] = -(1 - s) w[y] log p[y] - s / V · Σ_c w[c] log p[c];
// the mean divides by the sum of w[y] over the rows that count. One difference from PyTorch is deliberate: if nothing
// counts (no rows, every label ignored, or weights that sum to 0), the mean is 0 and so are its gradients; PyTorch's
// are NaN.
//
// Order of arithmetic: a row's exponentials are added in double, lane by lane; the losses of rows are added in double,
// in order. A row has the loss and the gradient that it has alone.
#pragma once

#include <cstdint>

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"
#include "heed/ops/loss_reduction.h"

namespace heed {

struct CrossEntropyOptions {
  View<const float, 1> weight{};  // [V], contiguous: the classes' weights; null: 1
  int64_t ignore_index = -100;    // rows with this label do not count: no loss, a gradient of 0, whatever their logits
  float label_smoothing = 0.0F;   // in [0, 1]: the part of the target that is spread over all classes
  LossReduction reduction = LossReduction::mean;
};

// logits [N, V], rows contiguous; labels [N] → loss, [N] without a reduction, else [1]. `softmax` [N, 2] receives the
// maximum of each row and the sum of its exponentials e^(logit - maximum), which backward needs; null: not kept. A
// label that is neither a class nor ignore_index is an Error that names it and its row.
void cross_entropy_forward(View<const float, 2> logits, View<const int64_t, 1> labels, View<float, 1> loss,
                           const CrossEntropyOptions& options = {}, View<float, 2> softmax = {},
                           Arena* arena = nullptr);

// What backward needs of forward.
struct CrossEntropySaved {
  View<const float, 2> logits;    // [N, V]
  View<const int64_t, 1> labels;  // [N]
  View<const float, 2> softmax;   // [N, 2], as forward filled it
};

// d_logits [N, V] (+)= (((1 - s) w[y] + s / V Σ_c w[c]) p - (1 - s) w[y] [c = y] - s / V w) d_loss, with the shape of
// the loss for d_loss and forward's options. d_logits may be the logits themselves.
void cross_entropy_backward(const CrossEntropySaved& saved, View<const float, 1> d_loss,
                            const InputGradient<2>& d_logits, const CrossEntropyOptions& options = {});

}  // namespace heed
