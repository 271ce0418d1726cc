#include "heed/ops/linear.h"

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/overlap.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/matmul.h"

namespace heed {
namespace {

void multiply(View<const float, 2> x, const LinearParameters& parameters, View<float, 2> y,
              const MatmulOptions& options) {
  if (parameters.packed != nullptr) return matmul(x, *parameters.packed, y, options);
  matmul(x, parameters.weight.transposed(), y, options);
}

// What matmul would refuse, in the name of the caller.
void check_forward(const View<const float, 2>& x, const LinearParameters& parameters, const View<float, 2>& y,
                   const LinearOptions& options) {
  constexpr const char* kName = "linear_forward";
  check_view(kName, "x", x);
  if (parameters.packed == nullptr) check_view(kName, "weight", parameters.weight);
  check_view(kName, "y", y);
  check(x.size(1) == parameters.inputs(), kName, "x has shape ", x.shape(), ", but the weight ", parameters.shape(),
        " takes width ", parameters.inputs());
  const Shape<2> y_shape{x.size(0), parameters.outputs()};
  check(y.shape() == y_shape, kName, "y has shape ", y.shape(), ", expected ", y_shape);
  const View<const float, 1>& bias = parameters.bias;
  check(bias.data() == nullptr || bias.size(0) == y_shape[1], kName, "bias has ", bias.size(0), " values for ",
        y_shape[1], " outputs");
  check_extent(kName, "bias", bias);
  const View<const float, 2>& residual = options.residual;
  check(residual.data() == nullptr || residual.shape() == y_shape, kName, "residual has shape ", residual.shape(),
        ", expected ", y_shape);
  check_extent(kName, "residual", residual);
}

}  // namespace

void linear_forward(View<const float, 2> x, const LinearParameters& parameters, View<float, 2> y,
                    const LinearOptions& options) {
  check_forward(x, parameters, y, options);
  MatmulOptions product;
  product.bias = parameters.bias;
  product.arena = options.arena;
  product.activation = options.activation;
  product.residual = options.residual;
  const View<float, 2>& derivative = options.derivative;
  if (derivative.data() != nullptr) {
    check(derivative.shape() == y.shape(), "linear_forward", "derivative has shape ", derivative.shape(),
          ", but y has ", y.shape());
    check_apart("linear_forward", "derivative", derivative, "y", View<const float, 2>(y));
    if (options.residual.data() != nullptr) {
      check_apart("linear_forward", "derivative", derivative, "residual", options.residual);
    }
    product.derivative = derivative;
  }
  multiply(x, parameters, y, product);
}

void linear_backward(const LinearSaved& saved, View<const float, 2> weight, View<const float, 2> d_y,
                     const LinearGradients& gradients, Arena* arena) {
  constexpr const char* kName = "linear_backward";
  check_view(kName, "x", saved.x);
  check_view(kName, "weight", weight);
  const Shape<2> y_shape{saved.x.size(0), weight.size(0)};
  check(saved.x.size(1) == weight.size(1), kName, "x has shape ", saved.x.shape(), ", but the weight ", weight.shape(),
        " takes width ", weight.size(1));
  check(d_y.shape() == y_shape, kName, "d_y has shape ", d_y.shape(), ", expected ", y_shape);
  check_view(kName, "d_y", d_y);
  const InputGradient<2>& d_x = gradients.x;
  check(d_x.view.data() == nullptr || d_x.view.shape() == saved.x.shape(), kName, "the gradient of x has shape ",
        d_x.view.shape(), ", expected ", saved.x.shape());
  check(gradients.weight.data() == nullptr || gradients.weight.shape() == weight.shape(), kName,
        "the gradient of the weight has shape ", gradients.weight.shape(), ", expected ", weight.shape());
  check(gradients.bias.data() == nullptr || gradients.bias.size(0) == weight.size(0), kName,
        "the gradient of the bias has ", gradients.bias.size(0), " values, expected ", weight.size(0));
  const View<const float, 2>& x_derivative = gradients.x_derivative;
  check(x_derivative.data() == nullptr || x_derivative.shape() == saved.x.shape(), kName, "x_derivative has shape ",
        x_derivative.shape(), ", expected ", saved.x.shape());
  check_extent(kName, "x_derivative", x_derivative);
  check_extent(kName, "the gradient of x", d_x.view);
  check_extent(kName, "the gradient of the weight", gradients.weight);
  check_extent(kName, "the gradient of the bias", gradients.bias);
  if (d_x.view.data() != nullptr) {
    check_apart(kName, "the gradient of x", d_x.view, "x", saved.x);
    check_apart(kName, "the gradient of x", d_x.view, "d_y", d_y);
    check_apart(kName, "the gradient of x", d_x.view, "weight", weight);
  } else if (gradients.weight.data() == nullptr && gradients.bias.data() == nullptr) {
    return;
  }
  CallArena scratch(arena);
  View<const float, 2> d_z = d_y;
  if (saved.derivative.data() != nullptr) {
    check(saved.derivative.shape() == y_shape, kName, "derivative has shape ", saved.derivative.shape(), ", expected ",
          y_shape, ": keep it in linear_forward");
    const View<float, 2> made(scratch->take<float>(element_count(y_shape)), y_shape);
    derivative_backward(saved.derivative, d_y, made);
    d_z = made;
  }
  MatmulOptions options;
  options.arena = &*scratch;
  options.accumulate = true;
  if (gradients.weight.data() != nullptr) matmul(d_z.transposed(), saved.x, gradients.weight, options);
  if (const View<float, 1>& bias = gradients.bias; bias.data() != nullptr) {
    const View<const float, 4> rows(d_z.data(), {1, 1, d_z.size(0), d_z.size(1)}, {0, 0, d_z.stride(0), d_z.stride(1)});
    broadcast_sum({rows}, {View<float, 4>(bias.data(), {1, 1, 1, bias.size(0)}, {0, 0, 0, bias.stride(0)}), true});
  }
  options.accumulate = d_x.add;
  options.factor = x_derivative;
  if (d_x.view.data() != nullptr) matmul(d_z, weight, d_x.view, options);
}

}  // namespace heed
