// The rows of a cross-entropy: what cross_entropy and linear_cross_entropy share. Internal to heed/ops.
#pragma once

#include <algorithm>
#include <cmath>

#include "heed/ops/cross_entropy.h"
#include "heed/ops/cross_entropy_kernel.h"
#include "heed/ops/labels.h"

namespace heed {

class CrossEntropyRows {
 public:
  // Checks labels and options, in the name of `function`.
  CrossEntropyRows(const char* function, View<const int64_t, 1> labels, const Shape<2>& rows_and_classes,
                   const CrossEntropyOptions& options);

  const Labels& labels() const { return labels_; }

  // The loss of a row, before the reduction; 0 if it does not count. softmax [2] receives what gradient() needs; null:
  // not kept.
  template <Isa isa>
  double loss(int64_t row, const float* logits, float* softmax) const {
    if (!labels_.counts(row)) return 0.0;
    const RowSoftmax found = row_softmax_kernel<isa>(classes_, logits, smoothing_);
    if (softmax != nullptr) {
      softmax[0] = found.max;
      softmax[1] = static_cast<float>(found.sum);
    }
    // Differences from the maximum, never the logits themselves: large logits do not cancel.
    const double log_sum = std::log(found.sum);
    const double below = static_cast<double>(found.max) - static_cast<double>(logits[labels_[row]]);
    return label_part(row) * (below + log_sum) + uniform_ * (found.spread + weight_sum_ * log_sum);
  }

  // The gradient of a row's loss times d_loss; zeros if it does not count. d_logits may be the logits.
  template <Isa isa>
  void gradient(int64_t row, const float* logits, const float* softmax, double d_loss,
                const InputGradient<1>& d_logits) const {
    float* const to = d_logits.view.data();
    if (!labels_.counts(row)) {
      if (!d_logits.add) std::fill_n(to, classes_, 0.0F);
      return;
    }
    const double label = label_part(row);
    RowGradient part;
    part.max = softmax[0];
    part.scale = static_cast<float>(d_loss * (label + uniform_ * weight_sum_) / static_cast<double>(softmax[1]));
    part.uniform = static_cast<float>(d_loss * uniform_);
    part.weight = smoothing_.weight;
    part.add = d_logits.add;
    row_gradient_kernel<isa>(classes_, logits, part, to);
    to[labels_[row]] -= static_cast<float>(d_loss * label);
  }

  // Writes the loss, of shape labels().loss_shape(), from the losses of the rows [N].
  void reduce(const double* losses, View<float, 1> loss) const;

 private:
  double label_part(int64_t row) const { return (1.0 - smoothing_part_) * labels_.weight(row); }

  Labels labels_;
  int64_t classes_;
  SmoothingWeights smoothing_;
  double smoothing_part_;    // s
  double uniform_;           // s / V
  double weight_sum_ = 0.0;  // Σ_c w[c]; not needed without smoothing
};

}  // namespace heed
