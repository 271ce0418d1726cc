#include "heed/ops/elementwise.h"

#include <algorithm>

#include "heed/ops/broadcast.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/elementwise_kernel.h"
#include "heed/ops/strided_loop.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// y = op(a, b) for views of one shape.
void transform(RowOp op, const View<const float, 4>& a, const View<const float, 4>& b, const View<float, 4>& y) {
  const auto loop = memory_order_loop<3, 4>(y.shape(), {y.strides(), a.strides(), b.strides()});
  dispatch([&]<Isa isa>() {
    for_each_row(loop, [&](const Offsets<3>& at, int64_t count) {
      elementwise_kernel<isa>(op, count, {a.data() + at[1], loop.row_stride(1)}, {b.data() + at[2], loop.row_stride(2)},
                              {y.data() + at[0], loop.row_stride(0)});
    });
  });
}

Shape<4> broadcast_shape(const char* function, const Shape<4>& a, const Shape<4>& b) {
  Shape<4> shape{};
  for (size_t i = 0; i < 4; ++i) {
    check(a[i] == b[i] || a[i] == 1 || b[i] == 1, function, "a has shape ", a, " and b ", b,
          ": sizes that differ must be 1 in one of them");
    shape[i] = a[i] == 1 ? b[i] : a[i];
  }
  return shape;
}

void check_gradient(const char* name, const InputGradient<4>& gradient, const Shape<4>& shape) {
  constexpr const char* kName = "binary_backward";
  if (gradient.view.data() == nullptr) return;
  check(gradient.view.shape() == shape, kName, name, " has shape ", gradient.view.shape(), ", expected ", shape);
  check_writable(kName, name, gradient.view);
}

// d (+)= sign · d_y ∘ factor, summed over the dimensions of size 1 in d; a null factor is 1.
void gradient_of_input(const View<const float, 4>& d_y, const View<const float, 4>& factor, float sign,
                       const InputGradient<4>& d) {
  if (d.view.shape() != d_y.shape()) {
    return broadcast_sum({.x = d_y, .factor = factor, .scale = static_cast<double>(sign)}, d);
  }
  const View<const float, 4> sign_view(&sign, d_y.shape(), {0, 0, 0, 0});
  transform(d.add ? RowOp::multiply_add : RowOp::mul, d_y, factor.data() == nullptr ? sign_view : factor, d.view);
}

}  // namespace

void binary_forward(BinaryOp op, View<const float, 4> a, View<const float, 4> b, View<float, 4> y) {
  constexpr const char* kName = "binary_forward";
  check_view(kName, "a", a);
  check_view(kName, "b", b);
  const Shape<4> shape = broadcast_shape(kName, a.shape(), b.shape());
  check(y.shape() == shape, kName, "y has shape ", y.shape(), ", expected ", shape, ", that of a ", a.shape(),
        " broadcast with b ", b.shape());
  check_writable(kName, "y", y);
  const View<const float, 4> wide_a = broadcast_to(kName, "a", a, shape);
  const View<const float, 4> wide_b = broadcast_to(kName, "b", b, shape);
  check_apart_or_same(kName, "y", y, "a", wide_a);
  check_apart_or_same(kName, "y", y, "b", wide_b);
  transform(op == BinaryOp::add ? RowOp::add : (op == BinaryOp::sub ? RowOp::sub : RowOp::mul), wide_a, wide_b, y);
}

void binary_backward(BinaryOp op, View<const float, 4> a, View<const float, 4> b, View<const float, 4> d_y,
                     const InputGradient<4>& d_a, const InputGradient<4>& d_b) {
  constexpr const char* kName = "binary_backward";
  const Shape<4> shape = broadcast_shape(kName, a.shape(), b.shape());
  check(d_y.shape() == shape, kName, "d_y has shape ", d_y.shape(), ", expected ", shape, ", that of a ", a.shape(),
        " broadcast with b ", b.shape());
  check_view(kName, "d_y", d_y);
  check_gradient("d_a", d_a, a.shape());
  check_gradient("d_b", d_b, b.shape());
  const bool both = d_a.view.data() != nullptr && d_b.view.data() != nullptr;
  const auto check_memory = [&](const char* name, const View<float, 4>& gradient) {
    if (gradient.data() == nullptr) return;
    if (both || !same_view(gradient, d_y)) check_apart(kName, name, gradient, "d_y", d_y);
    if (op != BinaryOp::mul) return;
    check_apart(kName, name, gradient, "a", a);
    check_apart(kName, name, gradient, "b", b);
  };
  if (op == BinaryOp::mul) {
    check_view(kName, "a", a);
    check_view(kName, "b", b);
  }
  check_memory("d_a", d_a.view);
  check_memory("d_b", d_b.view);
  if (both) check_apart(kName, "d_a", d_a.view, "d_b", View<const float, 4>(d_b.view));
  const bool product = op == BinaryOp::mul;
  const View<const float, 4> none;
  if (d_a.view.data() != nullptr) {
    gradient_of_input(d_y, product ? broadcast_to(kName, "b", b, shape) : none, 1.0F, d_a);
  }
  if (d_b.view.data() != nullptr) {
    gradient_of_input(d_y, product ? broadcast_to(kName, "a", a, shape) : none, op == BinaryOp::sub ? -1.0F : 1.0F,
                      d_b);
  }
}

void scale_add(float factor, View<const float, 4> x, const InputGradient<4>& y) {
  constexpr const char* kName = "scale_add";
  check_view(kName, "x", x);
  check_writable(kName, "y", y.view);
  const View<const float, 4> wide = broadcast_to(kName, "x", x, y.view.shape());
  check_apart_or_same(kName, "y", y.view, "x", wide);
  const View<const float, 4> factor_view(&factor, wide.shape(), {0, 0, 0, 0});
  transform(y.add ? RowOp::multiply_add : RowOp::mul, wide, factor_view, y.view);
}

}  // namespace heed
