#include "heed/autograd/linear_ops.h"

#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/ops/linear.h"

namespace heed {
namespace {

struct LinearOpSaved {
  Var x, weight, bias, residual;
  Activation activation = Activation::none;
  float* pre_activation = nullptr;  // [rows, outputs]; null without an activation
};

void linear_op_backward(const LinearOpSaved& saved, const Var& y) {
  const View<const float, 2> d_y = y.arrived_rows();
  const LinearSaved forward{saved.x.rows(), saved.activation, {saved.pre_activation, d_y.shape()}};
  LinearGradients gradients;
  gradients.x = saved.x.input_gradient_rows();
  gradients.weight = saved.weight.added<2>();
  if (saved.bias.given()) gradients.bias = saved.bias.added<1>();
  linear_backward(forward, saved.weight.value<2>(), d_y, gradients, &y.tape().scratch());
  if (saved.residual.given()) saved.residual.take_gradient_of(y);
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, const LinearOpOptions& options) {
  constexpr const char* kName = "linear";
  check(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1), kName, "x ", x.shape(), " and weight ",
        weight.shape(), " do not fit: the last size of x must be the inputs of the weight [outputs, inputs]");
  check(!bias.given() || bias.shape() == Dims{weight.size(0)}, kName, "bias has shape ", bias.shape(), ", expected ",
        Dims{weight.size(0)});
  Dims shape = x.shape();
  shape[-1] = weight.size(0);
  const Var& residual = options.residual;
  check(!residual.given() || residual.shape() == shape, kName, "residual has shape ", residual.shape(), ", expected ",
        shape);
  Tape& tape = x.tape();
  const Var y = tape.output(shape, {x, weight, bias, residual});
  const bool saves = options.activation != Activation::none && y.needs_gradient();
  LinearOpSaved saved{x, weight, bias, residual, options.activation, saves ? tape.keep<float>(y.count()) : nullptr};
  const LinearParameters parameters{weight.value<2>(), nullptr,
                                    bias.given() ? bias.value<1>() : View<const float, 1>()};
  LinearOptions forward;
  forward.activation = options.activation;
  if (residual.given()) forward.residual = residual.rows();
  forward.pre_activation = {saved.pre_activation, y.output_rows().shape()};
  forward.arena = &tape.scratch();
  linear_forward(x.rows(), parameters, y.output_rows(), forward);
  return tape.record<linear_op_backward>(y, saved);
}

}  // namespace heed
