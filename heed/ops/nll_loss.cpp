#include <algorithm>

#include "heed/core/extent.h"
#include "heed/ops/labels.h"
#include "heed/ops/losses.h"
#include "heed/ops/rows.h"

namespace heed {

void nll_loss_forward(View<const float, 2> log_probs, View<const int64_t, 1> labels, View<float, 1> loss,
                      const NllOptions& options) {
  constexpr const char* kName = "nll_loss_forward";
  check_view(kName, "log_probs", log_probs);
  const Labels rows(kName, labels, log_probs.shape(), {options.weight, options.ignore_index, options.reduction});
  check_loss(kName, "loss", loss, rows.loss_shape());
  double sum = 0.0;
  for (int64_t row = 0; row < rows.rows(); ++row) {
    const double value = rows.counts(row) ? -rows.weight(row) * static_cast<double>(log_probs(row, rows[row])) : 0.0;
    if (!rows.reduces()) loss(row) = static_cast<float>(value);
    sum += value;
  }
  if (rows.reduces()) loss(0) = static_cast<float>(sum * rows.share());
}

void nll_loss_backward(View<const int64_t, 1> labels, View<const float, 1> d_loss, const InputGradient<2>& d_log_probs,
                       const NllOptions& options) {
  constexpr const char* kName = "nll_loss_backward";
  const View<float, 2>& d_view = d_log_probs.view;
  if (d_view.data() == nullptr) return;
  check_rows(kName, "d_log_probs", d_view, d_view.shape());
  const Labels rows(kName, labels, d_view.shape(), {options.weight, options.ignore_index, options.reduction});
  check_loss(kName, "d_loss", d_loss, rows.loss_shape());
  for_each_range_of_rows(d_view.shape(), [&]<Isa>(int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (!d_log_probs.add) std::fill_n(&d_view(row, 0), d_view.size(1), 0.0F);
      if (!rows.counts(row)) continue;
      const double d_row = rows.share() * static_cast<double>(d_loss(rows.reduces() ? 0 : row));
      d_view(row, rows[row]) -= static_cast<float>(rows.weight(row) * d_row);
    }
  });
}

}  // namespace heed
