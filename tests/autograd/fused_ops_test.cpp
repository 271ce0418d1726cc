// The fused ops on a tape against the functions on views beneath them, which have their own tests against references.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "heed/autograd/attention_ops.h"
#include "heed/autograd/checkpoint.h"
#include "heed/autograd/linear_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/rng.h"
#include "tests/support/expect_error.h"

namespace heed {
namespace {

using test::expect_error;

Tensor random(std::vector<int64_t> shape, uint64_t seed) {
  Tensor result(std::move(shape));
  Rng(seed).fill_normal(result.values());
  return result;
}

Parameter parameter(std::vector<int64_t> shape, uint64_t seed) {
  const Tensor values = random(shape, seed);
  Parameter result{Dims(shape)};
  std::copy(values.values().begin(), values.values().end(), result.values().begin());
  return result;
}

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

// The gradient of Σ weights ∘ f(x) by x, against central differences.
void expect_gradient(const Tensor& x, const std::function<Var(const Var&)>& f, float tolerance = 2e-2F) {
  Tape tape;
  const Var leaf = tape.leaf(x);
  const Var y = f(leaf);
  const Tensor weights = random({y.count()}, 99);
  y.backward(weights.values());
  const std::vector<float> gradient = list(leaf.gradients());
  const auto value = [&](const Tensor& at) {
    tape.clear();
    const NoGrad no_grad(tape);
    const Var result = f(tape.constant(at));
    double sum = 0.0;
    for (size_t i = 0; i < result.values().size(); ++i) {
      sum += static_cast<double>(weights.values()[i]) * static_cast<double>(result.values()[i]);
    }
    return sum;
  };
  constexpr float kStep = 1e-2F;
  for (size_t i = 0; i < x.values().size(); i += 3) {
    Tensor up = x;
    Tensor down = x;
    up.values()[i] += kStep;
    down.values()[i] -= kStep;
    const double slope = (value(up) - value(down)) / static_cast<double>(up.values()[i] - down.values()[i]);
    EXPECT_NEAR(gradient[i], slope, tolerance * std::max(1.0, std::abs(slope))) << "element " << i;
  }
}

TEST(LinearOp, GradientsOfInputWeightBiasAndResidual) {
  const Tensor x = random({2, 3, 5}, 1);
  const Tensor w = random({4, 5}, 2);
  const Tensor b = random({4}, 3);
  const Tensor r = random({2, 3, 4}, 4);
  for (const Activation activation : {Activation::none, Activation::gelu, Activation::silu}) {
    const auto f = [&](const Var& in, const Var& weight, const Var& bias, const Var& residual) {
      return linear(in, weight, bias, {.activation = activation, .residual = residual});
    };
    const auto c = [](const Var& like, const Tensor& tensor) { return like.tape().constant(tensor); };
    expect_gradient(x, [&](const Var& v) { return f(v, c(v, w), c(v, b), c(v, r)); });
    expect_gradient(w, [&](const Var& v) { return f(c(v, x), v, c(v, b), c(v, r)); });
    expect_gradient(b, [&](const Var& v) { return f(c(v, x), c(v, w), v, c(v, r)); });
    expect_gradient(r, [&](const Var& v) { return f(c(v, x), c(v, w), c(v, b), v); });
  }
}

TEST(LinearOp, AnInputThatIsTheResidualTooGetsBothGradients) {
  const Tensor w = random({5, 5}, 2);
  expect_gradient(random({3, 5}, 1),
                  [&](const Var& v) { return linear(v, v.tape().constant(w), {}, {.residual = v}); });
}

TEST(LinearOp, AnInputThatIsTheWeightTooGetsBothGradients) {
  expect_gradient(random({3, 3}, 1), [](const Var& v) { return linear(v, v); });
  expect_gradient(
      random({3, 3}, 1),
      [](const Var& v) {
        return feed_forward(v, {v, {}, v, {}}, {.activation = Activation::gelu, .residual = v});
      },
      4e-2F);
}

TEST(LinearOp, ShapesThatDoNotFitAreRefused) {
  Tape tape;
  const Var x = tape.constant(random({2, 5}, 1));
  const Var w = tape.constant(random({4, 5}, 2));
  expect_error("linear", [&] { linear(w, x.reshape({5, 2})); }, {"[4, 5]", "[5, 2]"});
  expect_error("linear", [&] { linear(x, w, tape.constant(random({5}, 3))); }, {"bias", "[5]", "[4]"});
  expect_error("linear", [&] { linear(x, w, {}, {.residual = x}); }, {"residual", "[2, 5]", "[2, 4]"});
}

TEST(FeedForwardOp, HasTheBitsAndTheGradientsOfTwoLinearMaps) {
  const Tensor x = random({2, 3, 5}, 1);
  Parameter w1 = parameter({7, 5}, 2), b1 = parameter({7}, 3), w2 = parameter({5, 7}, 4), b2 = parameter({5}, 5);
  Parameter* const all[] = {&w1, &b1, &w2, &b2};
  const Tensor d_y = random({2, 3, 5}, 6);
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::silu}) {
    std::vector<float> values[3];
    std::vector<std::vector<float>> gradients[2];
    for (const int fused : {0, 1, 2}) {
      Tape tape;
      std::optional<NoGrad> no_grad;
      if (fused == 2) no_grad.emplace(tape);
      const Var in = tape.leaf(x);
      const Var v[] = {tape.parameter(w1), tape.parameter(b1), tape.parameter(w2), tape.parameter(b2)};
      const Var y = fused != 0
                        ? feed_forward(in, {v[0], v[1], v[2], v[3]}, {.activation = activation, .residual = in})
                        : linear(linear(in, v[0], v[1], {.activation = activation}), v[2], v[3], {.residual = in});
      values[fused] = list(y.values());
      if (fused == 2) continue;
      y.backward(d_y.values());
      gradients[fused].push_back(list(in.gradients()));
      for (Parameter* each : all) {
        gradients[fused].push_back(list(each->gradient()));
        each->zero_gradient();
      }
    }
    EXPECT_EQ(values[0], values[1]);
    EXPECT_EQ(values[0], values[2]);
    EXPECT_EQ(gradients[0], gradients[1]);
  }
}

TEST(AttentionOp, GradientsOfQueriesKeysAndValues) {
  const Tensor q = random({2, 3, 4, 8}, 1);
  const Tensor k = random({2, 5, 2, 8}, 2);
  const Tensor v = random({2, 5, 2, 6}, 3);
  const AttentionOptions options{.mask = Mask::causal(QueryPositions::bottom_right()) & Mask::lengths({5, 3})};
  const auto c = [](const Var& like, const Tensor& tensor) { return like.tape().constant(tensor); };
  expect_gradient(q, [&](const Var& in) { return attention(in, c(in, k), c(in, v), options); });
  expect_gradient(k, [&](const Var& in) { return attention(c(in, q), in, c(in, v), options); });
  expect_gradient(v, [&](const Var& in) { return attention(c(in, q), c(in, k), in, options); });
  Tape tape;
  const Var wrong = tape.constant(random({2, 3}, 1));
  expect_error("attention", [&] { attention(wrong, wrong, wrong); }, {"[2, 3]", "[B, T, H, D]"});
}

// A layer with all its parameters.
struct Layer {
  Parameter in_weight = parameter({24, 8}, 1), in_bias = parameter({24}, 2);
  Parameter out_weight = parameter({8, 8}, 3), out_bias = parameter({8}, 4);

  Var operator()(const Var& query, const Var& key, const MultiHeadOpOptions& options) const {
    Tape& tape = query.tape();
    MultiHeadVars vars;
    vars.in_weight = tape.parameter(in_weight);
    vars.in_bias = tape.parameter(in_bias);
    vars.out_weight = tape.parameter(out_weight);
    vars.out_bias = tape.parameter(out_bias);
    return multihead(query, key, key, vars, options);
  }
};

TEST(MultiheadOp, GradientsOfSelfAndCrossAttentionWithAResidual) {
  const Layer layer;
  const Tensor x = random({2, 3, 8}, 5);
  const Tensor other = random({2, 4, 8}, 6);
  const auto c = [](const Var& like, const Tensor& tensor) { return like.tape().constant(tensor); };
  expect_gradient(x, [&](const Var& in) {
    return layer(in, in, {.heads = 2, .attention = {.mask = Mask::causal()}, .residual = in});
  });
  expect_gradient(x, [&](const Var& in) { return layer(in, c(in, other), {.heads = 2}); });
  expect_gradient(other, [&](const Var& in) { return layer(c(in, x), in, {.heads = 2}); });
}

TEST(MultiheadOp, HasTheBitsOfTheLayerOnViewsWithOrWithoutGradients) {
  Layer layer;
  const Tensor x = random({2, 3, 8}, 5);
  const auto rows = [](Parameter& p, int64_t i) { return View<const float, 2>(p.value<2>().slice(0, 8 * i, 8)); };
  const auto part = [](Parameter& p, int64_t i) { return View<const float, 1>(p.value<1>().slice(0, 8 * i, 8)); };
  MultiHeadParameters<const float> p;
  p.q = rows(layer.in_weight, 0), p.k = rows(layer.in_weight, 1), p.v = rows(layer.in_weight, 2);
  p.q_bias = part(layer.in_bias, 0), p.k_bias = part(layer.in_bias, 1), p.v_bias = part(layer.in_bias, 2);
  p.out = layer.out_weight.value<2>();
  p.out_bias = layer.out_bias.value<1>();
  Tensor expected({2, 3, 8});
  MultiHeadState state;
  multihead_forward(MultiHeadInputs::self(x.view<3>()), p, {.heads = 2}, state, expected.view<3>());
  Tape tape;
  const Var in = tape.constant(x);
  EXPECT_EQ(list(layer(in, in, {.heads = 2}).values()), list(expected.values()));
  const NoGrad no_grad(tape);
  EXPECT_EQ(list(layer(in, in, {.heads = 2}).values()), list(expected.values()));
}

TEST(MultiheadOp, WeightsThatDoNotFitTheHeadsAreRefused) {
  const Layer layer;
  Tape tape;
  const Var x = tape.constant(random({2, 3, 8}, 5));
  expect_error("multihead", [&] { layer(x, x, {.heads = 5}); }, {"24 rows", "5"});
  expect_error("multihead", [&] { layer(x, x, {}); }, {"24 rows", "0"});
  expect_error("multihead", [&] { multihead(x, x, x, {}, {.heads = 2}); }, {"in_weight"});
}

// Two layers with dropout in attention, plain or checkpointed: values and gradients of x and of a weight.
std::vector<float> run(bool checkpointed) {
  const Layer first;
  Layer second;
  Tape tape({.seed = 3, .step = 7});
  const Var x = tape.leaf(random({2, 5, 8}, 5));
  MultiHeadOpOptions options{.heads = 2};
  options.attention.scores.dropout.probability = 0.5F;
  const auto block = [&](const Var& in) { return second(first(in, in, options), in, options); };
  const Var y = checkpointed ? checkpoint(x, block) : block(x);
  const Var z = first(y, y, options);  // dropout after the block goes on where it would
  z.backward(random({2, 5, 8}, 9).values());
  std::vector<float> result = list(z.values());
  for (const float each : x.gradients()) result.push_back(each);
  for (const float each : second.in_weight.gradient()) result.push_back(each);
  return result;
}

TEST(Checkpoint, HasTheBitsOfThePlainBlockDropoutIncluded) { EXPECT_EQ(run(true), run(false)); }

TEST(Checkpoint, KeepsLessMemory) {
  const Layer layer;
  const Tensor x = random({4, 16, 8}, 5);
  const auto block = [&](const Var& in) { return layer(in, in, {.heads = 2}); };
  Tape plain;
  Tape saving;
  Var a = plain.leaf(x);
  Var b = saving.leaf(x);
  for (int i = 0; i < 4; ++i) {
    a = block(a);
    b = checkpoint(b, block);
  }
  EXPECT_LT(saving.used_bytes() * 2, plain.used_bytes());
}

TEST(Checkpoint, AFrozenBlockOnAConstantNeedsNoGradient) {
  Layer layer;
  Tape tape;
  const auto block = [&](const Var& in) { return layer(in, in, {.heads = 2}); };
  const Var x = tape.constant(random({2, 3, 8}, 5));
  EXPECT_TRUE(checkpoint(x, block).needs_gradient());
  for (Parameter* each : {&layer.in_weight, &layer.in_bias, &layer.out_weight, &layer.out_bias}) each->set_frozen(true);
  EXPECT_FALSE(checkpoint(x, block).needs_gradient());
  EXPECT_TRUE(checkpoint(tape.leaf(random({2, 3, 8}, 5)), block).needs_gradient());
}

TEST(Checkpoint, AVarFromOutsideIsRefused) {
  Tape tape;
  const Var x = tape.leaf(random({2, 3, 8}, 5));
  const Layer layer;
  expect_error("Tape", [&] { checkpoint(x, [&](const Var& in) { return layer(in, x, {.heads = 2}); }); },
               {"another tape"});
  expect_error("checkpoint", [&] { checkpoint(x, [&](const Var&) { return x; }); }, {"not made from its input"});
}

}  // namespace
}  // namespace heed
