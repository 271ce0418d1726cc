#include "heed/ops/labels.h"

#include "heed/ops/rows.h"

namespace heed {

void check_loss(const char* function, const char* name, const View<const float, 1>& loss, const Shape<1>& expected) {
  check(loss.shape() == expected, function, name, " has shape ", loss.shape(), ", expected ", expected,
        ": one value, or without a reduction one for each row");
  check_view(function, name, loss);
}

Labels::Labels(const char* function, View<const int64_t, 1> labels, const Shape<2>& rows_and_classes,
               const LabelOptions& options)
    : labels_(labels), options_(options) {
  const int64_t classes = rows_and_classes[1];
  check(labels.size(0) == rows_and_classes[0], function, "there are ", labels.size(0), " labels for ",
        rows_and_classes[0], " rows; give one for each");
  check_view(function, "labels", labels);
  if (options.weight.data() != nullptr) check_vector(function, "weight", options.weight, classes);
  double total = 0.0;
  for (int64_t row = 0; row < rows(); ++row) {
    if (!counts(row)) continue;
    const int64_t label = labels(row);
    check(label >= 0 && label < classes, function, "row ", row, " has label ", label, ", expected 0 to ", classes - 1,
          " for ", classes, " classes, or ignore_index ", options.ignore_index);
    total += weight(row);
  }
  if (options.reduction == LossReduction::mean) share_ = total == 0.0 ? 0.0 : 1.0 / total;
}

}  // namespace heed
