// Embeddings, norms, dropout, activations and gated units on a tape. The functions on views beneath them have their own
// tests against references; here gradients are compared with central differences of the op itself.
#include "heed/autograd/layer_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/core/rng.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"

namespace heed {
namespace {

using test::expect_error;

Tensor random(std::vector<int64_t> shape, uint64_t seed) {
  Tensor result(std::move(shape));
  Rng(seed).fill_normal(result.values());
  return result;
}

TensorOf<int64_t> ids_of(std::vector<int64_t> shape, const std::vector<int64_t>& ids) {
  TensorOf<int64_t> result(std::move(shape));
  std::copy(ids.begin(), ids.end(), result.values().begin());
  return result;
}

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

Var constant(const Var& like, const Tensor& tensor) { return like.tape().constant(tensor); }

// The gradient of Σ weights ∘ f(x) by x, against central differences.
void expect_gradient(const Tensor& x, const std::function<Var(const Var&)>& f) {
  Tape tape;
  const Var leaf = tape.leaf(x);
  const Var y = f(leaf);
  const Tensor weights = random({y.count()}, 99);
  y.backward(weights.values());
  const std::vector<float> gradient = list(leaf.gradients());
  const auto value = [&](const Tensor& at) {
    tape.clear();
    tape.set_step_key({});  // the same masks of dropout
    const NoGrad no_grad(tape);
    const Var result = f(tape.constant(at));
    double sum = 0.0;
    for (size_t i = 0; i < result.values().size(); ++i) {
      sum += static_cast<double>(weights.values()[i]) * static_cast<double>(result.values()[i]);
    }
    return sum;
  };
  constexpr float kStep = 1e-2F;
  for (size_t i = 0; i < x.values().size(); ++i) {
    Tensor up = x, down = x;
    up.values()[i] += kStep;
    down.values()[i] -= kStep;
    const double slope = (value(up) - value(down)) / static_cast<double>(up.values()[i] - down.values()[i]);
    EXPECT_NEAR(static_cast<double>(gradient[i]), slope, 5e-3 * std::max(1.0, std::abs(slope))) << "element " << i;
  }
}

TEST(EmbeddingOp, GradientsOfTableAndPositions) {
  const TensorOf<int64_t> ids = ids_of({2, 3}, {1, 4, 1, 0, 1, 2});
  const Tensor table = random({5, 4}, 1), positions = random({6, 4}, 2);
  expect_gradient(
      table, [&](const Var& v) { return embedding(ids, v, {.positions = constant(v, positions), .scale = 2.0F}); });
  expect_gradient(positions, [&](const Var& v) { return embedding(ids, constant(v, table), {.positions = v}); });
  Tape tape;
  const Var t = tape.leaf(table);
  const Var y = embedding(ids, t, {.padding_idx = 1});
  EXPECT_EQ(y.shape(), (Dims{2, 3, 4}));
  EXPECT_EQ(y.values()[4], table.values()[16]);
  y.backward(std::vector<float>(24, 1.0F));
  EXPECT_EQ(t.gradients()[4], 0.0F);
  EXPECT_EQ(t.gradients()[16], 1.0F);
}

TEST(EmbeddingOp, TheIdsMayBeGoneInBackward) {
  Tape tape;
  const Var table = tape.leaf(random({3, 1}, 1));
  std::vector<int64_t> ids = {2, 2};
  const Var y = embedding(ids, {2}, table);
  ids = {0, 0};
  y.backward(std::vector<float>{1.0F, 1.0F});
  EXPECT_EQ(list(table.gradients()), (std::vector<float>{0.0F, 0.0F, 2.0F}));
}

TEST(NormOps, GradientsOfInputGammaAndBeta) {
  const Tensor x = random({2, 3, 5}, 1), gamma = random({5}, 2), beta = random({5}, 3);
  expect_gradient(x, [&](const Var& v) { return layer_norm(v, constant(v, gamma), constant(v, beta)); });
  expect_gradient(gamma, [&](const Var& v) { return layer_norm(constant(v, x), v, constant(v, beta)); });
  expect_gradient(beta, [&](const Var& v) { return layer_norm(constant(v, x), constant(v, gamma), v); });
  expect_gradient(x, [&](const Var& v) { return rms_norm(v, constant(v, gamma), 0.1F); });
  expect_gradient(gamma, [&](const Var& v) { return rms_norm(constant(v, x), v); });
  expect_gradient(x, [&](const Var& v) { return layer_norm(v); });
}

// y ∘ sum, so that both outputs have a gradient.
Var both(const NormedSum& normed) { return glu(normed.y, normed.sum, Activation::none); }

TEST(NormOps, GradientsThroughTheSumAndTheNorm) {
  const Tensor x = random({3, 5}, 1), residual = random({3, 5}, 2), gamma = random({5}, 3), beta = random({5}, 4);
  const auto layer = [&](const Var& a, const Var& b) {
    return add_layer_norm(a, b, constant(a, gamma), constant(a, beta));
  };
  const auto rms = [&](const Var& a, const Var& b) { return add_rms_norm(a, b, constant(a, gamma)); };
  expect_gradient(x, [&](const Var& v) { return both(layer(v, constant(v, residual))); });
  expect_gradient(residual, [&](const Var& v) { return both(layer(constant(v, x), v)); });
  expect_gradient(x, [&](const Var& v) { return both(rms(v, constant(v, residual))); });
  expect_gradient(x, [&](const Var& v) { return both(layer(v, tanh(v))); });
  expect_gradient(x, [&](const Var& v) { return both(layer(v, v)); });
  expect_gradient(x, [&](const Var& v) { return layer(v, tanh(v)).y; });
  expect_gradient(x, [&](const Var& v) { return layer(v, tanh(v)).sum; });
  expect_gradient(x, [&](const Var& v) { return layer(v, v).sum; });
}

TEST(NormOps, AVarUsedTwiceGetsTheSumOfItsGradients) {
  const Tensor x = random({3, 5}, 1);
  expect_gradient(x, [&](const Var& v) { return glu(layer_norm(v), rms_norm(v), Activation::none); });
}

TEST(DropoutOp, GradientsWithAndWithoutAResidual) {
  const Tensor x = random({4, 5}, 1), residual = random({4, 5}, 2);
  expect_gradient(x, [&](const Var& v) { return dropout(v, 0.5F); });
  expect_gradient(x, [&](const Var& v) { return dropout(v, 0.5F, constant(v, residual)); });
  expect_gradient(residual, [&](const Var& v) { return dropout(constant(v, x), 0.5F, v); });
  expect_gradient(x, [&](const Var& v) { return dropout(v, 0.5F, v); });
}

TEST(DropoutOp, EverySiteAndStepDrawsAMaskOfItsOwnAndAResumeTheSame) {
  Tape tape({.seed = 3});
  const auto draw = [&] {
    Tensor ones({1, 64});
    std::fill(ones.values().begin(), ones.values().end(), 1.0F);
    return list(dropout(tape.constant(ones), 0.5F).values());
  };
  const std::vector<float> first = draw(), second = draw();
  EXPECT_NE(first, second);
  tape.clear();
  EXPECT_EQ(draw(), first);  // no backward: the step is the same
  dropout(tape.leaf(Tensor({1})), 0.5F).backward();
  tape.clear();
  const std::vector<float> next_step = draw();
  EXPECT_NE(next_step, first);
  tape.clear();
  tape.set_step_key({.seed = 3, .step = 1});
  EXPECT_EQ(draw(), next_step);
}

TEST(DropoutOp, IsTheIdentityWhileTheTapeIsNotTraining) {
  Tape tape;
  const Tensor x = random({2, 3}, 1), residual = random({2, 3}, 2);
  const Evaluation evaluation(tape);
  const size_t nodes = tape.nodes();
  const Var in = tape.constant(x);
  EXPECT_EQ(list(dropout(in, 0.9F).values()), list(x.values()));
  EXPECT_EQ(tape.nodes(), nodes + 1);  // no copy
  const Var sum = dropout(in, 0.9F, tape.constant(residual));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(sum.values()[i], x.values()[i] + residual.values()[i]);
}

TEST(ActivationOps, Gradients) {
  const Tensor x = random({3, 5}, 1);
  for (const auto op : {relu, gelu, gelu_tanh, silu, static_cast<Var (*)(const Var&)>(tanh),
                        static_cast<Var (*)(const Var&)>(sigmoid)}) {
    expect_gradient(x, [&](const Var& v) { return op(v); });
    expect_gradient(x, [&](const Var& v) { return glu(op(v), op(v), Activation::none); });
  }
  Tape tape;
  const Var v = tape.constant(x);
  EXPECT_EQ(activate(v, Activation::none).values().data(), v.values().data());
}

TEST(GluOp, GradientsOfHalvesAndOfTwoVars) {
  const Tensor x = random({3, 6}, 1), other = random({3, 6}, 2);
  expect_gradient(x, [&](const Var& v) { return glu(v, Activation::silu); });
  expect_gradient(x, [&](const Var& v) { return glu(glu(v, v, Activation::none), Activation::gelu); });
  expect_gradient(x, [&](const Var& v) { return glu(v, constant(v, other), Activation::silu); });
  expect_gradient(x, [&](const Var& v) { return glu(constant(v, other), v, Activation::silu); });
  Tape tape;
  EXPECT_EQ(glu(tape.constant(x), Activation::silu).shape(), (Dims{3, 3}));
}

TEST(LayerOps, NothingIsSavedWithoutGradients) {
  Tape tape;
  const NoGrad no_grad(tape);
  const Var x = tape.leaf(random({16, 16}, 1));
  const size_t before = tape.used_bytes();
  const NormedSum normed = add_layer_norm(x, x);
  silu(normed.y);
  EXPECT_EQ(tape.used_bytes() - before, 3 * 16 * 16 * sizeof(float));
}

TEST(LayerOps, AllocateNothingAfterTheFirstStep) {
  Tape tape;
  Parameter table({20, 8}), gamma({8});
  const std::vector<int64_t> ids = {1, 2, 3, 1};
  const std::vector<float> ones(2 * 2 * 4, 1.0F);
  const auto step = [&] {
    const Var x = embedding(ids, {2, 2}, tape.parameter(table), {.scale = 2.0F});
    const NormedSum normed = add_layer_norm(x, dropout(x, 0.5F), tape.parameter(gamma));
    glu(gelu(normed.y), Activation::silu).backward(ones);
    tape.clear();
  };
  step();
  step();
  const int64_t allocations = test::allocation_count();
  step();
  EXPECT_EQ(test::allocation_count(), allocations);
}

TEST(LayerOps, ShapesThatDoNotFitAreRefused) {
  Tape tape;
  const Var x = tape.constant(random({2, 5}, 1)), wrong = tape.constant(random({5, 2}, 2));
  const Var short_gamma = tape.constant(random({4}, 3));
  expect_error("layer_norm", [&] { layer_norm(x, short_gamma); }, {"gamma has shape [4]", "[5]", "[2, 5]"});
  expect_error("layer_norm", [&] { layer_norm(x, {}, short_gamma); }, {"beta has shape [4]"});
  expect_error("add_layer_norm", [&] { add_layer_norm(x, wrong); }, {"residual has shape [5, 2]", "[2, 5]"});
  expect_error("add_rms_norm", [&] { add_rms_norm(x, {}); }, {"the residual is empty"});
  expect_error("dropout", [&] { dropout(x, 1.5F); }, {"p is 1.5"});
  expect_error("dropout", [&] { dropout(x, 0.5F, wrong); }, {"residual has shape [5, 2]"});
  expect_error("glu", [&] { glu(x, Activation::silu); }, {"[2, 5]", "even"});
  expect_error("glu", [&] { glu(x, wrong, Activation::silu); }, {"[2, 5]", "[5, 2]"});
  const std::vector<int64_t> ids = {0, 1, 7};
  expect_error("embedding", [&] { embedding(ids, {2, 2}, x); }, {"3 ids", "[2, 2]"});
  expect_error("embedding", [&] { embedding(ids, {3}, short_gamma); }, {"table has shape [4]", "[V, C]"});
  expect_error("embedding", [&] { embedding(ids, {3}, x, {.positions = x}); }, {"positions have shape [2, 5]", "3"});
  expect_error("embedding", [&] { embedding(ids, {3}, x, {.padding_idx = 2}); }, {"padding_idx is 2", "2 rows"});
  expect_error("embedding_forward", [&] { embedding(ids, {3}, x); }, {"position 2", "is 7"});
}

}  // namespace
}  // namespace heed
