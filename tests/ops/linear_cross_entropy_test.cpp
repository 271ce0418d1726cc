// linear_cross_entropy against the linear map and the cross-entropy one after the other.
#include "heed/ops/linear_cross_entropy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heed/core/tensor.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

void set_zero(View<float, 2> view) {
  for (int64_t i = 0; i < view.size(0); ++i) {
    for (int64_t j = 0; j < view.size(1); ++j) view(i, j) = 0.0F;
  }
}

struct Case {
  Case(int64_t rows, int64_t width, int64_t v)
      : classes(v),
        x(rows, width, Layout::padded_rows, 1),
        weight(v, width, Layout::rows, 2),
        bias(1, v, Layout::rows, 3),
        class_weight(1, v, Layout::rows, 4),
        labels({rows}) {
    for (int64_t row = 0; row < rows; ++row) {
      labels.values()[static_cast<size_t>(row)] = row % 5 == 4 ? -100 : (row * 7 + 3) % v;
    }
    for (int64_t c = 0; c < v; ++c) class_weight.view()(0, c) = 0.5F + static_cast<float>(c % 3);
    options.weight = std::as_const(class_weight).view()[0];
    options.label_smoothing = 0.1F;
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  LinearCrossEntropyInputs inputs() const {
    return {x.view(), weight.view(), bias.view()[0], std::as_const(labels).view<1>()};
  }

  int64_t classes;
  Matrix x, weight, bias, class_weight;
  TensorOf<int64_t> labels;
  CrossEntropyOptions options;
};

struct Result {
  Result(const Case& c, LossReduction reduction)
      : loss({reduction == LossReduction::none ? c.x.view().size(0) : 1}),
        d_x(c.x.view().size(0), c.x.view().size(1), Layout::padded_rows, 5),
        d_weight(c.classes, c.x.view().size(1)),
        d_bias(1, c.classes) {
    set_zero(d_weight.view());
    set_zero(d_bias.view());
  }
  LinearGradients gradients(bool add) { return {{d_x.view(), add}, d_weight.view(), d_bias.view()[0]}; }

  Tensor loss;
  Matrix d_x, d_weight, d_bias;
};

Result unfused(const Case& c, bool add) {
  Result result(c, c.options.reduction);
  const LinearCrossEntropyInputs inputs = c.inputs();
  const int64_t rows = inputs.x.size(0);
  Matrix logits(rows, c.classes), softmax(rows, 2);
  linear_forward(inputs.x, {inputs.weight, nullptr, inputs.bias}, logits.view());
  cross_entropy_forward(logits.view(), inputs.labels, result.loss.view<1>(), c.options, softmax.view());
  Tensor d_loss = result.loss;
  std::ranges::fill(d_loss.values(), 1.0F);
  cross_entropy_backward({logits.view(), inputs.labels, softmax.view()}, d_loss.view<1>(), logits.view(), c.options);
  linear_backward({inputs.x}, inputs.weight, logits.view(), result.gradients(add));
  return result;
}

TEST(LinearCrossEntropy, HasTheBitsOfTheLinearMapAndTheCrossEntropyForAnyNumberOfThreads) {
  for (const int count : {1, 3}) {
    const Threads threads(count);
    on_every_isa([] {
      for (const int64_t rows : {0, 1, 512, 1100}) {  // no block, part of one, one, three
        for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
          Case c(rows, 24, 37);
          c.options.reduction = reduction;
          const bool add = reduction == LossReduction::sum;
          const Result expected = unfused(c, add);
          Result result(c, reduction);
          linear_cross_entropy(c.inputs(), result.loss.view<1>(), c.options, result.gradients(add));
          expect_same_bits<1>(std::as_const(result.loss).view<1>(), expected.loss.view<1>());
          expect_same_bits<2>(result.d_x.view(), expected.d_x.view());
          expect_same_bits<2>(result.d_weight.view(), expected.d_weight.view());
          for (int64_t j = 0; j < 37; ++j) {  // blocks are added in f32 here, in double there
            EXPECT_NEAR(result.d_bias.view()(0, j), expected.d_bias.view()(0, j), 1e-5F);
          }
          result.d_x.expect_guards();
        }
      }
    });
  }
}

TEST(LinearCrossEntropy, ComputesOnlyTheGradientsAskedForAndAddsThoseOfParameters) {
  Case c(30, 8, 11);
  const Result expected = unfused(c, false);
  float loss = 0.0F;
  linear_cross_entropy(c.inputs(), {&loss, {1}}, c.options);
  EXPECT_EQ(loss, expected.loss.values()[0]);
  Matrix d_bias(1, 11, Layout::rows, 6);
  const Matrix before = d_bias;
  linear_cross_entropy(c.inputs(), {&loss, {1}}, c.options, {.x = {}, .bias = d_bias.view()[0]});
  EXPECT_EQ(loss, expected.loss.values()[0]);
  for (int64_t j = 0; j < 11; ++j) {
    EXPECT_NEAR(d_bias.view()(0, j), before.view()(0, j) + expected.d_bias.view()(0, j), 1e-6F);
  }
}

TEST(LinearCrossEntropy, AllocatesNothingAfterTheFirstCallWithAnArenaAndStoresOneBlockOfLogits) {
  Case c(1100, 4, 40);
  Arena arena;
  Result result(c, LossReduction::mean);
  const auto call = [&] {
    linear_cross_entropy(c.inputs(), result.loss.view<1>(), c.options, result.gradients(false), &arena);
  };
  call();
  const int64_t allocations = allocation_count();
  call();
  EXPECT_EQ(allocation_count(), allocations);
  // The block, a double per row, and matmul's scratch, which does not depend on the rows.
  EXPECT_GE(arena.peak_bytes(), static_cast<size_t>(kLinearCrossEntropyRows * 40 * 4 + 1100 * 8));
  Case longer(2200, 4, 40);
  Arena other;
  Result longer_result(longer, LossReduction::mean);
  linear_cross_entropy(longer.inputs(), longer_result.loss.view<1>(), longer.options, longer_result.gradients(false),
                       &other);
  EXPECT_LE(other.peak_bytes(), arena.peak_bytes() + 1100 * 8 + 64);
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFitBeforeAnythingIsWritten) {
  Case c(600, 8, 11);
  Result result(c, LossReduction::mean);
  const auto refused = [&](const LinearCrossEntropyInputs& inputs, const LinearGradients& gradients,
                           const std::string& rule) {
    expect_error("linear_cross_entropy",
                 [&] { linear_cross_entropy(inputs, result.loss.view<1>(), c.options, gradients); }, {rule});
  };
  Matrix wrong(6, 6);
  LinearCrossEntropyInputs inputs = c.inputs();
  inputs.x = wrong.view();
  refused(inputs, {}, "x has shape [6, 6], but the weight [11, 8] takes width 8");
  inputs = c.inputs();
  inputs.bias = std::as_const(wrong).view()[0];
  refused(inputs, {}, "bias has 6 values for 11 classes");
  refused(c.inputs(), {wrong.view()}, "the gradient of x has shape [6, 6], expected [600, 8]");
  refused(c.inputs(), {{}, wrong.view()}, "the gradient of the weight has shape [6, 6], expected [11, 8]");
  refused(c.inputs(), {{}, {}, wrong.view()[0]}, "the gradient of the bias has shape [6], expected [11]");
  refused(c.inputs(), {c.x.view()}, "the gradient of x of shape [600, 8] shares memory with x");
  refused(c.inputs(), {{}, c.weight.view()}, "shares memory with weight");
  c.labels.values()[599] = 11;
  const Result before = result;
  refused(c.inputs(), result.gradients(false), "row 599 has label 11");
  expect_same_bits<2>(result.d_x.view(), before.d_x.view());
  expect_same_bits<2>(result.d_weight.view(), before.d_weight.view());
}

}  // namespace
}  // namespace heed::test
