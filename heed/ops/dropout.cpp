#include "heed/ops/dropout.h"

#include "heed/ops/dropout_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

void check_call(const char* function, const DropoutOptions& options, const char* name,
                const View<const float, 2>& from) {
  const float p = options.probability;
  check(p >= 0.0F && p <= 1.0F, function, "the probability is ", p, "; it must be in 0 … 1");
  check_rows(function, name, from, from.shape());
  check(from.size(1) <= kMostWidth, function, name, " has shape ", from.shape(), "; rows are at most ", kMostWidth,
        " wide");
}

// to = from ∘ mask / (1 - p) + added
void drop(const DropoutOptions& options, const View<const float, 2>& from, const View<const float, 2>& added,
          const View<float, 2>& to) {
  const Rng rows = dropout_call(options.seed, options.step, options.site);
  const float p = options.probability;
  DropoutMask mask;
  mask.threshold = dropout_threshold(p);
  mask.scale = p < 1.0F ? static_cast<float>(dropout_scale(p)) : 0.0F;
  for_each_range_of_rows(from.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      DropoutMask of_row = mask;
      of_row.row = dropout_row(rows, r);
      const float* const added_row = added.data() != nullptr ? &added(r, 0) : nullptr;
      dropout_kernel<isa>(of_row, from.size(1), &from(r, 0), added_row, &to(r, 0));
    }
  });
}

}  // namespace

void dropout_forward(const DropoutOptions& options, View<const float, 2> x, View<const float, 2> residual,
                     View<float, 2> y) {
  constexpr const char* kName = "dropout_forward";
  check_call(kName, options, "x", x);
  check_rows(kName, "y", y, x.shape());
  check_same_or_apart(kName, "y", y, "x", x);
  if (residual.data() != nullptr) {
    check_rows(kName, "residual", residual, x.shape());
    check_same_or_apart(kName, "y", y, "residual", residual);
  }
  drop(options, x, residual, y);
}

void dropout_backward(const DropoutOptions& options, View<const float, 2> d_y, const InputGradient<2>& d_x) {
  constexpr const char* kName = "dropout_backward";
  if (d_x.view.data() == nullptr) return;
  check_call(kName, options, "d_y", d_y);
  check_rows(kName, "d_x", d_x.view, d_y.shape());
  check_same_or_apart(kName, "d_x", d_x.view, "d_y", d_y);
  drop(options, d_y, d_x.add ? View<const float, 2>(d_x.view) : View<const float, 2>(), d_x.view);
}

}  // namespace heed
