#include "heed/ops/activation.h"

#include <algorithm>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/ops/activation_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// Elements of a task: enough for about 10 µs.
constexpr int64_t kTaskElements = int64_t{1} << 14;

void check_rows(const char* function, const char* name, View<const float, 2> view, const Shape<2>& expected) {
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(function, name, view);
  check(view.size(1) <= 1 || view.stride(1) == 1, function, name, " has strides ", view.strides(),
        "; its rows must be contiguous: copy it first");
}

// row.operator()<isa>(r) for each row.
template <class Row>
void for_each_row(const Shape<2>& shape, Row row) {
  if (element_count(shape) == 0) return;
  const int64_t rows_of_task = std::max<int64_t>(1, kTaskElements / shape[1]);
  dispatch([&]<Isa isa>() {
    parallel_for(divide_up(shape[0], rows_of_task), [&](int64_t task, int) {
      const int64_t end = std::min((task + 1) * rows_of_task, shape[0]);
      for (int64_t r = task * rows_of_task; r < end; ++r) row.template operator()<isa>(r);
    });
  });
}

}  // namespace

void activation_forward(Activation activation, View<const float, 2> x, View<const float, 2> residual,
                        View<float, 2> y) {
  constexpr const char* kName = "activation_forward";
  check_rows(kName, "x", x, x.shape());
  check_rows(kName, "y", y, x.shape());
  const bool has_residual = residual.data() != nullptr;
  if (has_residual) check_rows(kName, "residual", residual, x.shape());
  for_each_row(x.shape(), [&]<Isa isa>(int64_t r) {
    activation_forward_kernel<isa>(activation, x.size(1), &x(r, 0), has_residual ? &residual(r, 0) : nullptr, &y(r, 0));
  });
}

void activation_backward(Activation activation, View<const float, 2> x, View<const float, 2> d_y,
                         const InputGradient<2>& d_x) {
  constexpr const char* kName = "activation_backward";
  if (d_x.view.data() == nullptr) return;
  check_rows(kName, "x", x, x.shape());
  check_rows(kName, "d_y", d_y, x.shape());
  check_rows(kName, "d_x", d_x.view, x.shape());
  for_each_row(x.shape(), [&]<Isa isa>(int64_t r) {
    activation_backward_kernel<isa>(activation, x.size(1), &x(r, 0), &d_y(r, 0), &d_x.view(r, 0), d_x.add);
  });
}

}  // namespace heed
