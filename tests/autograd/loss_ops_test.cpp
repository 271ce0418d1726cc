// The losses on a tape against the functions on views beneath them, which have tests of their own.
#include "heed/autograd/loss_ops.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/ops/linear.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"

namespace heed::test {
namespace {

Tensor random(const std::vector<int64_t>& shape, uint64_t seed) {
  Tensor result(shape);
  Rng(seed).fill_normal(result.values());
  return result;
}

View<const float, 1> flat(std::span<const float> values) {
  return {values.data(), {static_cast<int64_t>(values.size())}};
}

// [2, 3, 5]: six rows of five classes.
const std::vector<int64_t> kShape{2, 3, 5};
const std::vector<int64_t> kLabels{4, 0, -100, 2, 2, 1};
const View<const int64_t, 1> kLabelView{kLabels.data(), {6}};

// A loss of one input of kShape on a tape, and the functions beneath it: of x to the loss, and of x and d_loss to d_x.
struct LossCase {
  std::string name;
  Dims shape;  // of the loss
  std::function<Var(const Var& x, const Var& target)> on_tape;
  std::function<void(View<const float, 2> x, View<const float, 2> target, float* loss)> forward;
  std::function<void(View<const float, 2> x, View<const float, 2> target, const float* d_loss, View<float, 2> d_x)>
      backward;
};

LossCase cross_entropy_case(LossReduction reduction) {
  const bool none = reduction == LossReduction::none;
  const CrossEntropyOptions options{.label_smoothing = 0.1F, .reduction = reduction};
  const Shape<1> count{none ? 6 : 1};
  const auto forward = [=](auto x, auto, float* loss) { cross_entropy_forward(x, kLabelView, {loss, count}, options); };
  const auto backward = [=](auto x, auto, const float* d_loss, auto d_x) {
    float loss[6];
    Matrix softmax(6, 2);
    cross_entropy_forward(x, kLabelView, {loss, count}, options, softmax.view());
    cross_entropy_backward({x, kLabelView, softmax.view()}, {d_loss, count}, d_x, options);
  };
  return {"cross_entropy", none ? Dims{2, 3} : Dims(),
          [=](const Var& x, const Var&) { return cross_entropy(x, kLabels, options); }, forward, backward};
}

LossCase nll_case(LossReduction reduction) {
  const bool none = reduction == LossReduction::none;
  const NllOptions options{.reduction = reduction};
  const Shape<1> count{none ? 6 : 1};
  return {"nll_loss", none ? Dims{2, 3} : Dims(),
          [=](const Var& x, const Var&) { return nll_loss(x, kLabels, options); },
          [=](auto x, auto, float* loss) {
            nll_loss_forward(x, kLabelView, {loss, count}, options);
          },
          [=](auto, auto, const float* d_loss, auto d_x) {
            nll_loss_backward(kLabelView, {d_loss, count}, d_x, options);
          }};
}

std::vector<LossCase> loss_cases() {
  std::vector<LossCase> cases;
  for (const LossReduction reduction : {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
    cases.push_back(cross_entropy_case(reduction));
    cases.push_back(nll_case(reduction));
    const bool none = reduction == LossReduction::none;
    const Dims shape = none ? Dims(kShape) : Dims();
    const Shape<2> view = none ? Shape<2>{6, 5} : Shape<2>{1, 1};
    cases.push_back({"mse_loss", shape, [=](const Var& x, const Var& t) { return mse_loss(x, t, reduction); },
                     [=](auto x, auto t, float* loss) {
                       mse_loss_forward(x, t, {loss, view}, reduction);
                     },
                     [=](auto x, auto t, const float* d_loss, auto d_x) {
                       mse_loss_backward(x, t, {d_loss, view}, d_x, reduction);
                     }});
    const BinaryCrossEntropyOptions bce{.reduction = reduction};
    cases.push_back({"binary_cross_entropy_with_logits", shape,
                     [=](const Var& x, const Var& t) { return binary_cross_entropy_with_logits(x, t, bce); },
                     [=](auto x, auto t, float* loss) {
                       binary_cross_entropy_with_logits_forward(x, t, {loss, view}, bce);
                     },
                     [=](auto x, auto t, const float* d_loss, auto d_x) {
                       binary_cross_entropy_with_logits_backward(x, t, {d_loss, view}, d_x, bce);
                     }});
    const KlOptions kl{true, none ? KlReduction::none : KlReduction::batch_mean};
    cases.push_back({"kl_div", shape, [=](const Var& x, const Var& t) { return kl_div(x, t, kl); },
                     [=](auto x, auto t, float* loss) {
                       kl_div_forward(x, t, {loss, view}, kl);
                     },
                     [=](auto, auto t, const float* d_loss, auto d_x) {
                       kl_div_backward(t, {d_loss, view}, d_x, kl);
                     }});
  }
  return cases;
}

TEST(LossOps, HaveTheBitsOfTheFunctionsOnViewsForAnyGradientOfTheLoss) {
  const Tensor x = random(kShape, 1);
  const Tensor target = random(kShape, 2);
  const Tensor upstream = random({30}, 3);
  const View<const float, 2> x_rows(x.values().data(), {6, 5});
  const View<const float, 2> target_rows(target.values().data(), {6, 5});
  for (const LossCase& c : loss_cases()) {
    SCOPED_TRACE(c.name + " " + to_text(c.shape));
    Tape tape;
    const Var leaf = tape.leaf(x);
    const Var loss = c.on_tape(leaf, tape.constant(target));
    ASSERT_EQ(loss.shape(), c.shape);
    Tensor expected({30}), d_x({6, 5});
    c.forward(x_rows, target_rows, expected.values().data());
    c.backward(x_rows, target_rows, upstream.values().data(), d_x.view<2>());
    const size_t count = static_cast<size_t>(loss.count());
    expect_same_bits<1>(flat(loss.values()), flat(expected.values().first(count)));
    loss.backward(upstream.values().first(count));
    expect_same_bits<1>(flat(leaf.gradients()), flat(d_x.values()));
  }
}

// y = a + b, of single numbers.
struct SumSaved {
  Var a, b;
};
void sum_backward(const SumSaved& saved, const Var& y) {
  for (const Var& input : {saved.a, saved.b}) {
    const Var::Destination to = input.destination();
    *to.data = (to.add ? *to.data : 0.0F) + *y.arrived();
  }
}
Var sum(const Var& a, const Var& b) {
  const Var y = a.tape().output({}, {a, b});
  y.output_values()[0] = a.item() + b.item();
  return y.tape().record<sum_backward>(y, SumSaved{a, b});
}

TEST(LossOps, AnInputOfTwoLossesGetsTheSumOfItsGradients) {
  const Tensor x = random(kShape, 1);
  const Tensor target = random(kShape, 2);
  for (const LossCase& c : loss_cases()) {
    if (c.shape.rank() > 0) continue;
    Tape once, twice;
    const Var a = once.leaf(x);
    c.on_tape(a, once.constant(target)).backward();
    const Var b = twice.leaf(x);
    const Var t = twice.constant(target);
    sum(c.on_tape(b, t), c.on_tape(b, t)).backward();
    for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(b.gradients()[i], 2.0F * a.gradients()[i], 1e-6F) << c.name;
  }
}

// The parameters of a last linear map, and rows for it.
struct Head {
  Head() : weight({7, 4}), bias({7}), x(random({2, 3, 4}, 5)) {
    Rng(6).fill_normal(weight.values());
    Rng(7).fill_normal(bias.values());
  }
  Parameter weight, bias;
  Tensor x;
};

// The gradients of linear_forward and cross_entropy_forward, times d_loss.
struct Unfused {
  Unfused(const Head& head, bool has_bias, float d_loss) : d_x({6, 4}), d_weight({7, 4}), d_bias({7}) {
    const View<const float, 2> x(head.x.values().data(), {6, 4});
    Tensor logits({6, 7}), softmax({6, 2});
    const View<const float, 1> bias = has_bias ? head.bias.value<1>() : View<const float, 1>();
    linear_forward(x, {head.weight.value<2>(), nullptr, bias}, logits.view<2>());
    cross_entropy_forward(logits.view<2>(), kLabelView, {&loss, {1}}, {}, softmax.view<2>());
    cross_entropy_backward({logits.view<2>(), kLabelView, softmax.view<2>()}, {&d_loss, {1}}, logits.view<2>());
    linear_backward({x}, head.weight.value<2>(), logits.view<2>(),
                    {d_x.view<2>(), d_weight.view<2>(), d_bias.view<1>()});
  }
  float loss = 0.0F;
  Tensor d_x, d_weight, d_bias;
};

void expect_near(std::span<const float> got, std::span<const float> expected, float factor = 1.0F) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], factor * expected[i], 2e-6F);
}

TEST(LossOps, LinearCrossEntropyIsTheLinearMapAndTheCrossEntropy) {
  for (const bool has_bias : {false, true}) {
    Head head;
    Tape tape;
    const Var x = tape.leaf(head.x);
    const Var bias = has_bias ? tape.parameter(head.bias) : Var();
    const Var loss = linear_cross_entropy(x, tape.parameter(head.weight), bias, kLabels);
    const Unfused expected(head, has_bias, 2.5F);
    EXPECT_EQ(loss.shape(), Dims());
    EXPECT_EQ(loss.item(), expected.loss);
    loss.backward(std::vector<float>{2.5F});
    expect_near(x.gradients(), expected.d_x.values());
    expect_near(head.weight.gradient(), expected.d_weight.values());
    if (has_bias) expect_near(head.bias.gradient(), expected.d_bias.values());
  }
}

TEST(LossOps, LinearCrossEntropyAccumulatesOverBackwardsAndAllocatesNothingAfterTheFirst) {
  Head head;
  const Unfused expected(head, true, 1.0F);
  Tape tape;
  int64_t allocations = 0;
  for (int step = 1; step <= 3; ++step) {
    if (step == 3) allocations = allocation_count();
    linear_cross_entropy(tape.constant(head.x.values().data(), {6, 4}), tape.parameter(head.weight),
                         tape.parameter(head.bias), kLabels)
        .backward();
    tape.clear();
    if (step == 3) {
      EXPECT_EQ(allocation_count(), allocations);
    }
    expect_near(head.weight.gradient(), expected.d_weight.values(), static_cast<float>(step));
    expect_near(head.bias.gradient(), expected.d_bias.values(), static_cast<float>(step));
  }
}

TEST(LossOps, AFrozenWeightGetsNoGradientAndWhatIsBelowStillDoes) {
  Head head;
  head.weight.set_frozen(true);
  Tape tape;
  const Var x = tape.leaf(head.x);
  linear_cross_entropy(x, tape.parameter(head.weight), {}, kLabels).backward();
  expect_near(x.gradients(), Unfused(head, false, 1.0F).d_x.values());
  for (const float gradient : head.weight.gradient()) EXPECT_EQ(gradient, 0.0F);
}

TEST(LossOps, NoGradGivesTheSameLossAndKeepsNothing) {
  Head head;
  const Unfused expected(head, true, 1.0F);
  Tape tape;
  const NoGrad no_grad(tape);
  const Var x = tape.constant(head.x.values().data(), {6, 4});
  const Var fused = linear_cross_entropy(x, tape.parameter(head.weight), tape.parameter(head.bias), kLabels);
  EXPECT_EQ(fused.item(), expected.loss);
  EXPECT_FALSE(fused.needs_gradient());
  EXPECT_EQ(tape.used_bytes(), kAlignment);  // the loss
  cross_entropy(x.reshape({2, 3, 4}), std::vector<int64_t>(6, 3));
  EXPECT_EQ(tape.used_bytes(), 2 * kAlignment);
}

TEST(LossOps, LabelsMayGoAfterTheCall) {
  const Tensor x = random(kShape, 1);
  Tape kept, gone;
  const Var a = kept.leaf(x);
  cross_entropy(a, kLabels).backward();
  const Var b = gone.leaf(x);
  std::vector<int64_t> labels = kLabels;
  const Var loss = cross_entropy(b, labels);
  labels.assign(6, 3);
  loss.backward();
  expect_same_bits<1>(flat(b.gradients()), flat(a.gradients()));
}

TEST(LossOps, RefuseWhatDoesNotFit) {
  Head head;
  Tape tape;
  const Var x = tape.leaf(random(kShape, 1));
  const Var weight = tape.parameter(head.weight);
  expect_error("cross_entropy_forward", [&] { cross_entropy(x, std::vector<int64_t>{1}); }, {"1 labels for 6 rows"});
  expect_error("cross_entropy_forward", [&] { cross_entropy(x, std::vector<int64_t>(6, 5)); }, {"row 0 has label 5"});
  expect_error("cross_entropy", [&] { cross_entropy(tape.leaf(Tensor({1})).reshape({}), kLabels); }, {"rank 0"});
  expect_error("linear_cross_entropy", [&] { linear_cross_entropy(x, weight, {}, kLabels); },
               {"x has shape [6, 5]", "[7, 4]"});
  expect_error("linear_cross_entropy", [&] { linear_cross_entropy(x, x, {}, kLabels); }, {"weight [2, 3, 5]"});
  expect_error("linear_cross_entropy",
               [&] { linear_cross_entropy(x, weight, {}, kLabels, {.reduction = LossReduction::none}); },
               {"without a reduction", "use linear and cross_entropy"});
  expect_error("mse_loss", [&] { mse_loss(x, weight); }, {"[2, 3, 5]", "[7, 4]"});
  expect_error("kl_div", [&] { kl_div(x, x); }, {"target", "detach()"});
  Tape other;
  expect_error("Tape", [&] { mse_loss(x, other.constant(random(kShape, 2))); }, {"another tape"});
}

}  // namespace
}  // namespace heed::test
