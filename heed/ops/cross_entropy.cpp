#include "heed/ops/cross_entropy.h"

#include <algorithm>

#include "heed/ops/cross_entropy_rows.h"
#include "heed/ops/rows.h"

namespace heed {

CrossEntropyRows::CrossEntropyRows(const char* function, View<const int64_t, 1> labels,
                                   const Shape<2>& rows_and_classes, const CrossEntropyOptions& options)
    : labels_(function, labels, rows_and_classes, {options.weight, options.ignore_index, options.reduction}),
      classes_(rows_and_classes[1]),
      smoothing_{options.label_smoothing != 0.0F, options.weight.data()},
      smoothing_part_(static_cast<double>(options.label_smoothing)),
      uniform_(smoothing_part_ / static_cast<double>(std::max<int64_t>(classes_, 1))) {
  check(options.label_smoothing >= 0.0F && options.label_smoothing <= 1.0F, function, "label_smoothing is ",
        options.label_smoothing, ", expected 0 to 1");
  if (!smoothing_.smooths) return;
  for (int64_t c = 0; c < classes_; ++c) weight_sum_ += labels_.class_weight(c);
}

void CrossEntropyRows::reduce(const double* losses, View<float, 1> loss) const {
  if (!labels_.reduces()) {
    for (int64_t row = 0; row < labels_.rows(); ++row) loss(row) = static_cast<float>(losses[row]);
    return;
  }
  double sum = 0.0;
  for (int64_t row = 0; row < labels_.rows(); ++row) sum += losses[row];
  loss(0) = static_cast<float>(sum * labels_.share());
}

void cross_entropy_forward(View<const float, 2> logits, View<const int64_t, 1> labels, View<float, 1> loss,
                           const CrossEntropyOptions& options, View<float, 2> softmax, Arena* arena) {
  constexpr const char* kName = "cross_entropy_forward";
  check_rows(kName, "logits", logits, logits.shape());
  const CrossEntropyRows rows(kName, labels, logits.shape(), options);
  check_loss(kName, "loss", loss, rows.labels().loss_shape());
  const bool keeps = softmax.data() != nullptr;
  if (keeps) check_rows(kName, "softmax", softmax, {logits.size(0), 2});
  CallArena scratch(arena);
  double* const losses = scratch->take<double>(logits.size(0));
  std::fill_n(losses, logits.size(0), 0.0);
  for_each_range_of_rows(logits.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      losses[row] = rows.loss<isa>(row, &logits(row, 0), keeps ? &softmax(row, 0) : nullptr);
    }
  });
  rows.reduce(losses, loss);
}

void cross_entropy_backward(const CrossEntropySaved& saved, View<const float, 1> d_loss,
                            const InputGradient<2>& d_logits, const CrossEntropyOptions& options) {
  constexpr const char* kName = "cross_entropy_backward";
  if (d_logits.view.data() == nullptr) return;
  const View<const float, 2>& logits = saved.logits;
  check_rows(kName, "logits", logits, logits.shape());
  const CrossEntropyRows rows(kName, saved.labels, logits.shape(), options);
  check_loss(kName, "d_loss", d_loss, rows.labels().loss_shape());
  check_rows(kName, "softmax", saved.softmax, {logits.size(0), 2});
  check_rows(kName, "d_logits", d_logits.view, logits.shape());
  check_same_or_apart(kName, "d_logits", d_logits.view, "logits", logits);
  check_apart(kName, "d_logits", d_logits.view, "softmax", saved.softmax);
  const bool reduces = rows.labels().reduces();
  const double share = rows.labels().share();
  for_each_range_of_rows(logits.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const double d_row = share * static_cast<double>(d_loss(reduces ? 0 : row));
      rows.gradient<isa>(row, &logits(row, 0), &saved.softmax(row, 0), d_row, {d_logits.view[row], d_logits.add});
    }
  });
}

}  // namespace heed
