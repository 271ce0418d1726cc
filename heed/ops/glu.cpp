#include "heed/ops/glu.h"

#include "heed/ops/glu_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

void check_gradient(const char* function, const char* name, const InputGradient<2>& gradient,
                    const View<const float, 2>& a, const View<const float, 2>& b, const View<const float, 2>& d_y) {
  if (gradient.view.data() == nullptr) return;
  check_rows(function, name, gradient.view, a.shape());
  check_same_or_apart(function, name, gradient.view, "a", a);
  check_same_or_apart(function, name, gradient.view, "b", b);
  check_same_or_apart(function, name, gradient.view, "d_y", d_y);
}

}  // namespace

void glu_forward(Activation activation, View<const float, 2> a, View<const float, 2> b, View<float, 2> y) {
  constexpr const char* kName = "glu_forward";
  check_rows(kName, "a", a, a.shape());
  check_rows(kName, "b", b, a.shape());
  check_rows(kName, "y", y, a.shape());
  check_same_or_apart(kName, "y", y, "a", a);
  check_same_or_apart(kName, "y", y, "b", b);
  for_each_range_of_rows(a.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      glu_forward_kernel<isa>(activation, a.size(1), &a(r, 0), &b(r, 0), &y(r, 0));
    }
  });
}

void glu_backward(Activation activation, View<const float, 2> a, View<const float, 2> b, View<const float, 2> d_y,
                  const GluGradients& gradients) {
  constexpr const char* kName = "glu_backward";
  const auto& [d_a, d_b] = gradients;
  const bool has_a = d_a.view.data() != nullptr;
  const bool has_b = d_b.view.data() != nullptr;
  if (!has_a && !has_b) return;
  check_rows(kName, "a", a, a.shape());
  check_rows(kName, "b", b, a.shape());
  check_rows(kName, "d_y", d_y, a.shape());
  check_gradient(kName, "the gradient of a", d_a, a, b, d_y);
  check_gradient(kName, "the gradient of b", d_b, a, b, d_y);
  if (has_a && has_b) {
    check_apart(kName, "the gradient of a", d_a.view, "the gradient of b", d_b.view);
  }
  for_each_range_of_rows(a.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    GluRow row;
    row.count = a.size(1);
    row.add_a = gradients.a.add;
    row.add_b = gradients.b.add;
    for (int64_t r = begin; r < end; ++r) {
      row.a = &a(r, 0);
      row.b = &b(r, 0);
      row.d_y = &d_y(r, 0);
      row.d_a = has_a ? &gradients.a.view(r, 0) : nullptr;
      row.d_b = has_b ? &gradients.b.view(r, 0) : nullptr;
      glu_backward_kernel<isa>(activation, row);
    }
  });
}

}  // namespace heed
