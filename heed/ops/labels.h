// The labels of a loss over classes: which rows count, and with which weight. Internal to heed/ops.
#pragma once

#include <cstdint>

#include "heed/core/view.h"
#include "heed/ops/loss_reduction.h"

namespace heed {

struct LabelOptions {
  View<const float, 1> weight{};  // [V]; null: 1
  int64_t ignore_index = -100;
  LossReduction reduction = LossReduction::mean;
};

// Rejects a loss, or its gradient, of another shape: one value, or one for each of the rows.
void check_loss(const char* function, const char* name, const View<const float, 1>& loss, const Shape<1>& expected);

class Labels {
 public:
  // Checks every label [N] and the weights, in the name of `function`.
  Labels(const char* function, View<const int64_t, 1> labels, const Shape<2>& rows_and_classes,
         const LabelOptions& options);

  int64_t rows() const { return labels_.size(0); }
  int64_t operator[](int64_t row) const { return labels_(row); }
  bool counts(int64_t row) const { return labels_(row) != options_.ignore_index; }
  double weight(int64_t row) const { return class_weight(labels_(row)); }
  double class_weight(int64_t c) const {
    return options_.weight.data() == nullptr ? 1.0 : static_cast<double>(options_.weight(c));
  }
  bool reduces() const { return options_.reduction != LossReduction::none; }
  // The shape of the loss: one value, or one per row.
  Shape<1> loss_shape() const { return {reduces() ? 1 : rows()}; }

  // The factor of each row's loss in the result: 1, or for the mean 1 / (the sum of the weights of the rows that
  // count), and 0 if that sum is 0.
  double share() const { return share_; }

 private:
  View<const int64_t, 1> labels_;
  LabelOptions options_;
  double share_ = 1.0;
};

}  // namespace heed
