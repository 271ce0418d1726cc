#include "heed/autograd/loss_ops.h"

#include <algorithm>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/linear_cross_entropy.h"

namespace heed {
namespace {

// A loss of rows, or its gradient: [1], or one for each row.
template <class T>
View<T, 1> losses(T* data, const Var& loss) {
  return {data, {loss.count()}};
}

// The shape of a loss of rows [..., V].
Dims row_loss_shape(const char* function, const Var& rows, LossReduction reduction) {
  check(rows.rank() >= 1, function, "a Var of rank 0 has no dimension of classes");
  if (reduction != LossReduction::none) return {};
  return Dims(std::span<const int64_t>(rows.shape().begin(), static_cast<size_t>(rows.rank() - 1)));
}

View<const int64_t, 1> label_view(std::span<const int64_t> labels) {
  return {labels.data(), {static_cast<int64_t>(labels.size())}};
}

View<const int64_t, 1> kept(Tape& tape, std::span<const int64_t> labels) {
  int64_t* const copy = tape.keep<int64_t>(static_cast<int64_t>(labels.size()));
  std::copy(labels.begin(), labels.end(), copy);
  return {copy, {static_cast<int64_t>(labels.size())}};
}

struct CrossEntropyOpSaved {
  Var logits;
  View<const int64_t, 1> labels;
  View<const float, 2> softmax;
  CrossEntropyOptions options;
};

void cross_entropy_op_backward(const CrossEntropyOpSaved& saved, const Var& loss) {
  cross_entropy_backward({saved.logits.rows(), saved.labels, saved.softmax}, losses(loss.arrived(), loss),
                         saved.logits.input_gradient_rows(), saved.options);
}

// The gradients for d_loss = 1; null where none is needed.
struct LinearCrossEntropyOpSaved {
  Var x, weight, bias;
  float* d_x = nullptr;
  float* d_weight = nullptr;
  float* d_bias = nullptr;
};

void linear_cross_entropy_op_backward(const LinearCrossEntropyOpSaved& saved, const Var& loss) {
  const auto send = [&](const Var& input, const float* gradient) {
    if (gradient == nullptr) return;
    const Shape<4> shape{1, 1, 1, input.count()};
    const Var::Destination to = input.destination();
    scale_add(*loss.arrived(), {gradient, shape}, {View<float, 4>(to.data, shape), to.add});
  };
  send(saved.x, saved.d_x);
  send(saved.weight, saved.d_weight);
  send(saved.bias, saved.d_bias);
}

struct NllOpSaved {
  Var log_probs;
  View<const int64_t, 1> labels;
  NllOptions options;
};

void nll_op_backward(const NllOpSaved& saved, const Var& loss) {
  nll_loss_backward(saved.labels, losses(loss.arrived(), loss), saved.log_probs.input_gradient_rows(), saved.options);
}

// A loss of elements. Options: KlOptions, BinaryCrossEntropyOptions or LossReduction.
template <class Options>
struct ElementLossSaved {
  Var x, target;
  Options options;
};

void kl_op_backward(const ElementLossSaved<KlOptions>& saved, const Var& loss) {
  kl_div_backward(saved.target.rows(), loss.arrived_rows(), saved.x.input_gradient_rows(), saved.options);
}

void binary_cross_entropy_op_backward(const ElementLossSaved<BinaryCrossEntropyOptions>& saved, const Var& loss) {
  binary_cross_entropy_with_logits_backward(saved.x.rows(), saved.target.rows(), loss.arrived_rows(),
                                            saved.x.input_gradient_rows(), saved.options);
}

void mse_op_backward(const ElementLossSaved<LossReduction>& saved, const Var& loss) {
  mse_loss_backward(saved.x.rows(), saved.target.rows(), loss.arrived_rows(), saved.x.input_gradient_rows(),
                    saved.options);
}

// The result of a loss of elements, to be filled.
Var element_loss(const char* function, const Var& x, const Var& target, bool reduces) {
  check(x.shape() == target.shape(), function, "the shapes are ", x.shape(), " and, of the target, ", target.shape(),
        "; they must be the same");
  check(!target.needs_gradient(), function, "the target of shape ", target.shape(),
        " needs a gradient, which a loss does not compute: detach() it");
  return x.tape().output(reduces ? Dims() : x.shape(), {x, target});
}

}  // namespace

Var cross_entropy(const Var& logits, std::span<const int64_t> labels, const CrossEntropyOptions& options) {
  Tape& tape = logits.tape();
  const Var loss = tape.output(row_loss_shape("cross_entropy", logits, options.reduction), {logits});
  CrossEntropyOpSaved saved{logits, label_view(labels), {}, options};
  View<float, 2> softmax;
  if (loss.needs_gradient()) {
    const Shape<2> shape{logits.rows().size(0), 2};
    softmax = {tape.keep<float>(element_count(shape)), shape};
    saved.labels = kept(tape, labels);
    saved.softmax = softmax;
  }
  cross_entropy_forward(logits.rows(), saved.labels, losses(loss.output_values().data(), loss), options, softmax,
                        &tape.scratch());
  return tape.record<cross_entropy_op_backward>(loss, saved);
}

Var linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, std::span<const int64_t> labels,
                         const CrossEntropyOptions& options) {
  constexpr const char* kName = "linear_cross_entropy";
  check(x.rank() >= 1 && weight.rank() == 2, kName, "x ", x.shape(), " and weight ", weight.shape(),
        " do not fit: expected [..., C] and [V, C]");
  check(!bias.given() || bias.rank() == 1, kName, "bias has shape ", bias.shape(), ", expected ", Dims{weight.size(0)});
  check(options.reduction != LossReduction::none, kName,
        "without a reduction there is no one gradient to compute in forward: use linear and cross_entropy");
  Tape& tape = x.tape();
  const Var loss = tape.output({}, {x, weight, bias});
  LinearCrossEntropyOpSaved saved{x, weight, bias};
  LinearGradients gradients;
  if (loss.needs_gradient()) {
    const auto zeros = [&](const Var& parameter) {
      float* const values = tape.keep<float>(parameter.count());
      std::fill_n(values, parameter.count(), 0.0F);
      return values;
    };
    if (x.needs_gradient()) saved.d_x = tape.keep<float>(x.count());
    if (weight.needs_gradient()) saved.d_weight = zeros(weight);
    if (bias.given() && bias.needs_gradient()) saved.d_bias = zeros(bias);
    gradients.x = View<float, 2>(saved.d_x, x.rows().shape());
    gradients.weight = {saved.d_weight, weight.shape().shape<2>()};
    if (bias.given()) gradients.bias = {saved.d_bias, bias.shape().shape<1>()};
  }
  const LinearCrossEntropyInputs inputs{x.rows(), weight.value<2>(),
                                        bias.given() ? bias.value<1>() : View<const float, 1>(), label_view(labels)};
  linear_cross_entropy(inputs, losses(loss.output_values().data(), loss), options, gradients, &tape.scratch());
  return tape.record<linear_cross_entropy_op_backward>(loss, saved);
}

Var nll_loss(const Var& log_probs, std::span<const int64_t> labels, const NllOptions& options) {
  Tape& tape = log_probs.tape();
  const Var loss = tape.output(row_loss_shape("nll_loss", log_probs, options.reduction), {log_probs});
  NllOpSaved saved{log_probs, label_view(labels), options};
  if (loss.needs_gradient()) saved.labels = kept(tape, labels);
  nll_loss_forward(log_probs.rows(), saved.labels, losses(loss.output_values().data(), loss), options);
  return tape.record<nll_op_backward>(loss, saved);
}

Var kl_div(const Var& log_probs, const Var& target, const KlOptions& options) {
  Tape& tape = log_probs.tape();
  const Var loss = element_loss("kl_div", log_probs, target, options.reduction != KlReduction::none);
  kl_div_forward(log_probs.rows(), target.rows(), loss.output_rows(), options, &tape.scratch());
  return tape.record<kl_op_backward>(loss, ElementLossSaved<KlOptions>{log_probs, target, options});
}

Var binary_cross_entropy_with_logits(const Var& x, const Var& target, const BinaryCrossEntropyOptions& options) {
  Tape& tape = x.tape();
  const Var loss =
      element_loss("binary_cross_entropy_with_logits", x, target, options.reduction != LossReduction::none);
  binary_cross_entropy_with_logits_forward(x.rows(), target.rows(), loss.output_rows(), options, &tape.scratch());
  return tape.record<binary_cross_entropy_op_backward>(loss,
                                                       ElementLossSaved<BinaryCrossEntropyOptions>{x, target, options});
}

Var mse_loss(const Var& x, const Var& target, LossReduction reduction) {
  Tape& tape = x.tape();
  const Var loss = element_loss("mse_loss", x, target, reduction != LossReduction::none);
  mse_loss_forward(x.rows(), target.rows(), loss.output_rows(), reduction, &tape.scratch());
  return tape.record<mse_op_backward>(loss, ElementLossSaved<LossReduction>{x, target, reduction});
}

}  // namespace heed
