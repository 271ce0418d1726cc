#include "heed/ops/losses.h"

#include "heed/ops/element_loss_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

// One call of a loss of elements.
struct ElementCall {
  const char* function;
  const char* x_name;
  ElementLoss loss;
  View<const float, 2> x;       // [N, C]
  View<const float, 2> target;  // [N, C]
  bool reduces = true;
  double share = 1.0;                 // the factor of an element's loss in the result
  View<const float, 2> weight{};      // [N, C]; null: 1
  View<const float, 1> pos_weight{};  // [C]; null: 1

  const Shape<2>& shape() const { return x.shape(); }
  ElementLossRow row(int64_t r) const {
    return {shape()[1], &x(r, 0), &target(r, 0), weight.data() ? &weight(r, 0) : nullptr, pos_weight.data()};
  }
};

double share_of(LossReduction reduction, const View<const float, 2>& target) {
  const bool divides = reduction == LossReduction::mean && target.count() > 0;
  return divides ? 1.0 / static_cast<double>(target.count()) : 1.0;
}

double share_of(KlReduction reduction, const View<const float, 2>& target) {
  if (reduction == KlReduction::batch_mean && target.size(0) > 0) return 1.0 / static_cast<double>(target.size(0));
  return share_of(reduction == KlReduction::mean ? LossReduction::mean : LossReduction::sum, target);
}

// `result` is the loss or its gradient.
void check_call(const ElementCall& call, const char* result_name, const View<const float, 2>& result) {
  check_rows(call.function, call.x_name, call.x, call.x.shape());
  check_rows(call.function, "target", call.target, call.x.shape());
  if (call.weight.data() != nullptr) check_rows(call.function, "weight", call.weight, call.shape());
  if (call.pos_weight.data() != nullptr) {
    check_vector(call.function, "pos_weight", call.pos_weight, call.shape()[1]);
  }
  check_rows(call.function, result_name, result, call.reduces ? Shape<2>{1, 1} : call.shape());
}

void forward(const ElementCall& call, View<float, 2> loss, Arena* arena) {
  check_call(call, "loss", loss);
  CallArena scratch(arena);
  const int64_t rows = call.shape()[1] == 0 ? 0 : call.shape()[0];
  double* const sums = scratch->take<double>(rows);
  for_each_range_of_rows(call.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      sums[r] = element_loss_kernel<isa>(call.loss, call.row(r), call.reduces ? nullptr : &loss(r, 0));
    }
  });
  if (!call.reduces) return;
  double total = 0.0;
  for (int64_t r = 0; r < rows; ++r) total += sums[r];
  loss(0, 0) = static_cast<float>(total * call.share);
}

void backward(const ElementCall& call, const char* d_name, View<const float, 2> d_loss, const InputGradient<2>& d_x) {
  if (d_x.view.data() == nullptr) return;
  check_call(call, "d_loss", d_loss);
  check_rows(call.function, d_name, d_x.view, call.shape());
  check_apart(call.function, d_name, d_x.view, "target", call.target);
  check_same_or_apart(call.function, d_name, d_x.view, call.x_name, call.x);
  if (call.weight.data() != nullptr) check_apart(call.function, d_name, d_x.view, "weight", call.weight);
  ElementLossGradient gradient;
  gradient.scale = static_cast<float>(call.share * (call.reduces ? static_cast<double>(d_loss(0, 0)) : 1.0));
  gradient.add = d_x.add;
  for_each_range_of_rows(call.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      ElementLossGradient row = gradient;
      row.d_loss = call.reduces ? nullptr : &d_loss(r, 0);
      row.d_x = &d_x.view(r, 0);
      element_loss_gradient_kernel<isa>(call.loss, call.row(r), row);
    }
  });
}

ElementCall kl_call(const char* function, View<const float, 2> log_probs, View<const float, 2> target,
                    const KlOptions& options) {
  return {function,
          "log_probs",
          options.log_target ? ElementLoss::kl_log_target : ElementLoss::kl,
          log_probs,
          target,
          options.reduction != KlReduction::none,
          share_of(options.reduction, target)};
}

ElementCall bce_call(const char* function, View<const float, 2> x, View<const float, 2> target,
                     const BinaryCrossEntropyOptions& options) {
  return {function,
          "x",
          ElementLoss::binary_cross_entropy,
          x,
          target,
          options.reduction != LossReduction::none,
          share_of(options.reduction, target),
          options.weight,
          options.pos_weight};
}

ElementCall mse_call(const char* function, View<const float, 2> x, View<const float, 2> target,
                     LossReduction reduction) {
  return {function,
          "x",
          ElementLoss::squared_error,
          x,
          target,
          reduction != LossReduction::none,
          share_of(reduction, target)};
}

}  // namespace

void kl_div_forward(View<const float, 2> log_probs, View<const float, 2> target, View<float, 2> loss,
                    const KlOptions& options, Arena* arena) {
  forward(kl_call("kl_div_forward", log_probs, target, options), loss, arena);
}

void kl_div_backward(View<const float, 2> target, View<const float, 2> d_loss, const InputGradient<2>& d_log_probs,
                     const KlOptions& options) {
  // The gradient does not depend on the log-probabilities.
  backward(kl_call("kl_div_backward", target, target, options), "d_log_probs", d_loss, d_log_probs);
}

void binary_cross_entropy_with_logits_forward(View<const float, 2> x, View<const float, 2> target, View<float, 2> loss,
                                              const BinaryCrossEntropyOptions& options, Arena* arena) {
  forward(bce_call("binary_cross_entropy_with_logits_forward", x, target, options), loss, arena);
}

void binary_cross_entropy_with_logits_backward(View<const float, 2> x, View<const float, 2> target,
                                               View<const float, 2> d_loss, const InputGradient<2>& d_x,
                                               const BinaryCrossEntropyOptions& options) {
  backward(bce_call("binary_cross_entropy_with_logits_backward", x, target, options), "d_x", d_loss, d_x);
}

void mse_loss_forward(View<const float, 2> x, View<const float, 2> target, View<float, 2> loss, LossReduction reduction,
                      Arena* arena) {
  forward(mse_call("mse_loss_forward", x, target, reduction), loss, arena);
}

void mse_loss_backward(View<const float, 2> x, View<const float, 2> target, View<const float, 2> d_loss,
                       const InputGradient<2>& d_x, LossReduction reduction) {
  backward(mse_call("mse_loss_backward", x, target, reduction), "d_x", d_loss, d_x);
}

}  // namespace heed
