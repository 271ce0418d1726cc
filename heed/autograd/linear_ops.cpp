#include "heed/autograd/linear_ops.h"

#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/ops/linear.h"

namespace heed {
namespace {

struct LinearOpSaved {
  Var x, weight, bias, residual;
  float* derivative = nullptr;  // of the activation: [rows, outputs]; null without one
};

void linear_op_backward(const LinearOpSaved& saved, const Var& y) {
  const View<const float, 2> d_y = y.arrived_rows();
  const LinearSaved forward{saved.x.rows(), {saved.derivative, d_y.shape()}};
  // The gradient of x last: it is then added where x is the weight too.
  LinearGradients gradients;
  gradients.weight = saved.weight.added<2>();
  if (saved.bias.given()) gradients.bias = saved.bias.added<1>();
  gradients.x = saved.x.input_gradient_rows();
  linear_backward(forward, saved.weight.value<2>(), d_y, gradients, &y.tape().scratch());
  if (saved.residual.given()) saved.residual.take_gradient_of(y);
}

// Refuses what does not fit a linear map; the shape of its result.
Dims check_linear(const char* function, const Var& x, const Var& weight, const Var& bias) {
  check(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1), function, "x ", x.shape(), " and weight ",
        weight.shape(), " do not fit: the last size of x must be the inputs of the weight [outputs, inputs]");
  check(!bias.given() || bias.shape() == Dims{weight.size(0)}, function, "bias has shape ", bias.shape(), ", expected ",
        Dims{weight.size(0)});
  Dims shape = x.shape();
  shape[-1] = weight.size(0);
  return shape;
}

void check_residual(const char* function, const Var& residual, const Dims& shape) {
  check(!residual.given() || residual.shape() == shape, function, "residual has shape ", residual.shape(),
        ", expected ", shape);
}

LinearParameters parameters_of(const Var& weight, const Var& bias) {
  return {weight.value<2>(), nullptr, bias.given() ? bias.value<1>() : View<const float, 1>()};
}

struct FeedForwardSaved {
  Var x;
  FeedForwardVars parameters;
  Var residual;
  View<float, 2> derivative, hidden;  // [rows, hidden]
};

void feed_forward_backward(const FeedForwardSaved& saved, const Var& y) {
  Arena& scratch = y.tape().scratch();
  const Arena::Scope scope(scratch);
  const FeedForwardVars& p = saved.parameters;
  const Shape<2>& shape = saved.hidden.shape();
  const bool first_wanted = saved.x.needs_gradient() || p.first_weight.needs_gradient() ||
                            (p.first_bias.given() && p.first_bias.needs_gradient());
  const View<float, 2> d_z(first_wanted ? scratch.take<float>(element_count(shape)) : nullptr, shape);
  LinearGradients second;
  second.x = d_z;
  second.x_derivative = saved.derivative;
  second.weight = p.second_weight.added<2>();
  if (p.second_bias.given()) second.bias = p.second_bias.added<1>();
  linear_backward({.x = saved.hidden}, p.second_weight.value<2>(), y.arrived_rows(), second, &scratch);
  if (saved.residual.given() && !first_wanted) saved.residual.take_gradient_of(y);
  if (!first_wanted) return;
  LinearGradients first;
  first.weight = p.first_weight.added<2>();
  if (p.first_bias.given()) first.bias = p.first_bias.added<1>();
  first.x = saved.x.input_gradient_rows();
  linear_backward({.x = saved.x.rows()}, p.first_weight.value<2>(), d_z, first, &scratch);
  if (saved.residual.given()) saved.residual.take_gradient_of(y);
}

}  // namespace

Var linear(const Var& x, const Var& weight, const Var& bias, const LinearOpOptions& options) {
  const Var& residual = options.residual;
  const Dims shape = check_linear("linear", x, weight, bias);
  check_residual("linear", residual, shape);
  Tape& tape = x.tape();
  const Var y = tape.output(shape, {x, weight, bias, residual});
  const bool saves = options.activation != Activation::none && y.needs_gradient();
  const LinearOpSaved saved{x, weight, bias, residual, saves ? tape.keep<float>(y.count()) : nullptr};
  LinearOptions forward;
  forward.activation = options.activation;
  if (residual.given()) forward.residual = residual.rows();
  forward.derivative = {saved.derivative, y.output_rows().shape()};
  forward.arena = &tape.scratch();
  linear_forward(x.rows(), parameters_of(weight, bias), y.output_rows(), forward);
  return tape.record<linear_op_backward>(y, saved);
}

Var feed_forward(const Var& x, const FeedForwardVars& p, const LinearOpOptions& options) {
  constexpr const char* kName = "feed_forward";
  const Var& residual = options.residual;
  check(options.activation != Activation::none, kName, "no activation between the two maps");
  Dims shape = check_linear(kName, x, p.first_weight, p.first_bias);
  const int64_t hidden = p.first_weight.size(0);
  check(p.second_weight.rank() == 2 && p.second_weight.size(1) == hidden, kName, "the first weight ",
        p.first_weight.shape(), " makes ", hidden, " values, and the second takes ", p.second_weight.shape());
  check(!p.second_bias.given() || p.second_bias.shape() == Dims{p.second_weight.size(0)}, kName,
        "the second bias has shape ", p.second_bias.shape(), ", expected ", Dims{p.second_weight.size(0)});
  shape[-1] = p.second_weight.size(0);
  check_residual(kName, residual, shape);
  Tape& tape = x.tape();
  const Var y = tape.output(shape, {x, p.first_weight, p.first_bias, p.second_weight, p.second_bias, residual});
  const Arena::Scope scope(tape.scratch());  // of what is not saved
  Arena& memory = y.needs_gradient() ? tape.step_memory() : tape.scratch();
  const Shape<2> hidden_shape{x.rows().size(0), hidden};
  FeedForwardSaved saved{x, p, residual, {}, {}};
  saved.hidden = {memory.take<float>(element_count(hidden_shape)), hidden_shape};
  LinearOptions first;
  first.activation = options.activation;
  first.arena = &tape.scratch();
  if (y.needs_gradient()) {
    saved.derivative = {memory.take<float>(element_count(hidden_shape)), hidden_shape};
    first.derivative = saved.derivative;
  }
  linear_forward(x.rows(), parameters_of(p.first_weight, p.first_bias), saved.hidden, first);
  LinearOptions second;
  second.arena = &tape.scratch();
  if (residual.given()) second.residual = residual.rows();
  linear_forward(saved.hidden, parameters_of(p.second_weight, p.second_bias), y.output_rows(), second);
  return tape.record<feed_forward_backward>(y, saved);
}

}  // namespace heed
