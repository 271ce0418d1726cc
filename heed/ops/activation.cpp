#include "heed/ops/activation.h"

#include "heed/ops/activation_kernel.h"
#include "heed/ops/rows.h"

namespace heed {

void activation_forward(Activation activation, View<const float, 2> x, View<const float, 2> residual,
                        View<float, 2> y) {
  constexpr const char* kName = "activation_forward";
  check_rows(kName, "x", x, x.shape());
  check_rows(kName, "y", y, x.shape());
  const bool has_residual = residual.data() != nullptr;
  if (has_residual) check_rows(kName, "residual", residual, x.shape());
  for_each_range_of_rows(x.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* const added = has_residual ? &residual(r, 0) : nullptr;
      activation_forward_kernel<isa>(activation, x.size(1), &x(r, 0), added, &y(r, 0));
    }
  });
}

void activation_backward(Activation activation, View<const float, 2> x, View<const float, 2> d_y,
                         const InputGradient<2>& d_x) {
  constexpr const char* kName = "activation_backward";
  if (d_x.view.data() == nullptr) return;
  check_rows(kName, "x", x, x.shape());
  check_rows(kName, "d_y", d_y, x.shape());
  check_rows(kName, "d_x", d_x.view, x.shape());
  for_each_range_of_rows(x.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      activation_backward_kernel<isa>(activation, x.size(1), &x(r, 0), &d_y(r, 0), &d_x.view(r, 0), d_x.add);
    }
  });
}

void derivative_backward(View<const float, 2> derivative, View<const float, 2> d_y, const InputGradient<2>& d_x) {
  constexpr const char* kName = "derivative_backward";
  if (d_x.view.data() == nullptr) return;
  check_rows(kName, "derivative", derivative, derivative.shape());
  check_rows(kName, "d_y", d_y, derivative.shape());
  check_rows(kName, "d_x", d_x.view, derivative.shape());
  for_each_range_of_rows(derivative.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      derivative_backward_kernel<isa>(derivative.size(1), &derivative(r, 0), &d_y(r, 0), &d_x.view(r, 0), d_x.add);
    }
  });
}

}  // namespace heed
