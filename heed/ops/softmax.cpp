#include "heed/ops/softmax.h"

#include <algorithm>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/ops/broadcast.h"
#include "heed/ops/softmax_kernel.h"
#include "heed/ops/strided_loop.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

void check_rows(const char* function, const char* name, View<const float, 2> view, const Shape<2>& expected) {
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(function, name, view);
  check(view.size(1) <= 1 || view.stride(1) == 1, function, name, " has strides ", view.strides(),
        "; its rows must be contiguous: copy it first");
}

// row.operator()<isa>(r) for each row.
template <class Row>
void for_each_softmax_row(const Shape<2>& shape, Row row) {
  if (element_count(shape) == 0) return;
  const int64_t step = std::max<int64_t>(1, kTaskElements / shape[1]);
  dispatch([&]<Isa isa>() {
    parallel_for(divide_up(shape[0], step), [&](int64_t task, int) {
      for (int64_t r = task * step; r < std::min((task + 1) * step, shape[0]); ++r) row.template operator()<isa>(r);
    });
  });
}

void forward(const char* function, SoftmaxKind kind, const View<const float, 2>& x, const View<float, 2>& y) {
  check_rows(function, "x", x, x.shape());
  check_rows(function, "y", y, x.shape());
  check_writable(function, "y", y);
  check_apart_or_same(function, "y", y, "x", x);
  for_each_softmax_row(x.shape(),
                       [&]<Isa isa>(int64_t r) { softmax_forward_kernel<isa>(kind, x.size(1), &x(r, 0), &y(r, 0)); });
}

void backward(const char* function, SoftmaxKind kind, const View<const float, 2>& y, const View<const float, 2>& d_y,
              const InputGradient<2>& d_x) {
  if (d_x.view.data() == nullptr) return;
  check_rows(function, "y", y, y.shape());
  check_rows(function, "d_y", d_y, y.shape());
  check_rows(function, "d_x", d_x.view, y.shape());
  check_writable(function, "d_x", d_x.view);
  check_apart_or_same(function, "d_x", d_x.view, "y", y);
  check_apart_or_same(function, "d_x", d_x.view, "d_y", d_y);
  for_each_softmax_row(y.shape(), [&]<Isa isa>(int64_t r) {
    softmax_backward_kernel<isa>(kind, y.size(1), &y(r, 0), &d_y(r, 0), &d_x.view(r, 0), d_x.add);
  });
}

}  // namespace

void softmax_forward(View<const float, 2> x, View<float, 2> y) {
  forward("softmax_forward", SoftmaxKind::weights, x, y);
}

void softmax_backward(View<const float, 2> y, View<const float, 2> d_y, const InputGradient<2>& d_x) {
  backward("softmax_backward", SoftmaxKind::weights, y, d_y, d_x);
}

void log_softmax_forward(View<const float, 2> x, View<float, 2> y) {
  forward("log_softmax_forward", SoftmaxKind::logarithms, x, y);
}

void log_softmax_backward(View<const float, 2> y, View<const float, 2> d_y, const InputGradient<2>& d_x) {
  backward("log_softmax_backward", SoftmaxKind::logarithms, y, d_y, d_x);
}

}  // namespace heed
