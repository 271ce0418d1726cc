#include "heed/ops/masked_fill.h"

#include "heed/ops/broadcast.h"
#include "heed/ops/strided_loop.h"

namespace heed {
namespace {

// Selects are exact, so the loops are plain; the compiler vectorises that of contiguous rows.
template <class Select>
void select_row(int64_t count, const float* x, const bool* mask, float* y, const Offsets<3>& steps, Select select) {
  if (steps == Offsets<3>{1, 1, 1}) {
    for (int64_t i = 0; i < count; ++i) y[i] = select(x[i], mask[i], y[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    y[i * steps[0]] = select(x[i * steps[1]], mask[i * steps[2]], y[i * steps[0]]);
  }
}

// y = select(x, mask, y) for views of one shape.
template <class Select>
void select_elements(const View<const float, 4>& x, const View<const bool, 4>& mask, const View<float, 4>& y,
                     Select select) {
  const auto loop = memory_order_loop<3, 4>(y.shape(), {y.strides(), x.strides(), mask.strides()});
  const Offsets<3> steps{loop.row_stride(0), loop.row_stride(1), loop.row_stride(2)};
  for_each_row(loop, [&](const Offsets<3>& at, int64_t count) {
    select_row(count, x.data() + at[1], mask.data() + at[2], y.data() + at[0], steps, select);
  });
}

}  // namespace

void masked_fill_forward(View<const float, 4> x, View<const bool, 4> mask, float value, View<float, 4> y) {
  constexpr const char* kName = "masked_fill_forward";
  check_view(kName, "x", x);
  check_view(kName, "mask", mask);
  check(y.shape() == x.shape(), kName, "y has shape ", y.shape(), ", expected that of x, ", x.shape());
  check_writable(kName, "y", y);
  check_apart_or_same(kName, "y", y, "x", x);
  select_elements(x, broadcast_to(kName, "mask", mask, x.shape()), y,
                  [value](float in, bool masked, float) { return masked ? value : in; });
}

void masked_fill_backward(View<const bool, 4> mask, View<const float, 4> d_y, const InputGradient<4>& d_x) {
  constexpr const char* kName = "masked_fill_backward";
  if (d_x.view.data() == nullptr) return;
  check_view(kName, "d_y", d_y);
  check_view(kName, "mask", mask);
  check(d_x.view.shape() == d_y.shape(), kName, "d_x has shape ", d_x.view.shape(), ", expected that of d_y, ",
        d_y.shape());
  check_writable(kName, "d_x", d_x.view);
  check_apart_or_same(kName, "d_x", d_x.view, "d_y", d_y);
  const View<const bool, 4> wide = broadcast_to(kName, "mask", mask, d_y.shape());
  if (d_x.add) {
    select_elements(d_y, wide, d_x.view,
                    [](float d_out, bool masked, float before) { return masked ? before : before + d_out; });
  } else {
    select_elements(d_y, wide, d_x.view, [](float d_out, bool masked, float) { return masked ? 0.0F : d_out; });
  }
}

}  // namespace heed
