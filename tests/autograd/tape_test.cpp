// The tape by itself, with ops written here as a user would write them.
#include "heed/autograd/tape.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"

namespace heed {
namespace {

using test::expect_error;

struct CubeSaved {
  Var x;
};

void cube_backward(const CubeSaved& saved, const Var& y) {
  const float* const d_y = y.arrived();
  const Var::Destination d_x = saved.x.destination();
  if (d_x.data == nullptr) return;
  for (size_t i = 0; i < saved.x.values().size(); ++i) {
    const float x = saved.x.values()[i];
    d_x.data[i] = (d_x.add ? d_x.data[i] : 0.0F) + 3.0F * x * x * d_y[i];
  }
}

Var cube(const Var& x) {
  const Var y = x.tape().output(x.shape(), {x});
  for (size_t i = 0; i < x.values().size(); ++i) y.output_values()[i] = x.values()[i] * x.values()[i] * x.values()[i];
  return x.tape().record<cube_backward>(y, CubeSaved{x});
}

// s = a + b and p = a - b: an op with two outputs.
struct ButterflySaved {
  Var a, b, difference;
};

void butterfly_backward(const ButterflySaved& saved, const Var& sum) {
  const float* const d_s = sum.arrived();
  const float* const d_p = saved.difference.arrived();
  const auto at = [](const float* from, int64_t i) { return from == nullptr ? 0.0F : from[i]; };
  const auto send = [&](const Var& input, float sign) {
    const Var::Destination to = input.destination();
    if (to.data == nullptr) return;
    for (int64_t i = 0; i < sum.count(); ++i)
      to.data[i] = (to.add ? to.data[i] : 0.0F) + at(d_s, i) + sign * at(d_p, i);
  };
  send(saved.a, 1.0F);
  send(saved.b, -1.0F);
}

std::pair<Var, Var> butterfly(const Var& a, const Var& b) {
  const Var sum = a.tape().output(a.shape(), {a, b});
  const Var difference = a.tape().output(a.shape(), {a, b});
  for (size_t i = 0; i < a.values().size(); ++i) {
    sum.output_values()[i] = a.values()[i] + b.values()[i];
    difference.output_values()[i] = a.values()[i] - b.values()[i];
  }
  return {a.tape().record<butterfly_backward>(sum, ButterflySaved{a, b, difference}, 1), difference};
}

// y = x, handing the gradient on.
struct SameSaved {
  Var x;
};
void same_backward(const SameSaved& saved, const Var& y) { saved.x.take_gradient_of(y); }
Var same(const Var& x) {
  const Var y = x.tape().output(x.shape(), {x});
  std::copy(x.values().begin(), x.values().end(), y.output_values().begin());
  return x.tape().record<same_backward>(y, SameSaved{x});
}

Tensor tensor(const std::vector<float>& values) {
  Tensor result({static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), result.values().begin());
  return result;
}

std::vector<float> list(std::span<const float> values) { return {values.begin(), values.end()}; }

const std::vector<float> kOnes{1.0F, 1.0F};

TEST(Tape, BackwardComputesTheGradientOfALeaf) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  cube(x).backward();
  EXPECT_EQ(x.gradients()[0], 12.0F);
}

TEST(Tape, AVarUsedTwiceGetsTheSumOfItsGradients) {
  Tape tape;
  const Var x = tape.leaf(tensor({1.0F, 2.0F}));
  const auto [sum, difference] = butterfly(cube(x), x);  // sum = x³ + x
  sum.backward(kOnes);
  EXPECT_EQ(list(x.gradients()), (std::vector<float>{4.0F, 13.0F}));
  EXPECT_EQ(list(difference.values()), (std::vector<float>{0.0F, 6.0F}));
}

TEST(Tape, AnOpWithTwoOutputsRunsBackwardOnceWithBothGradients) {
  Tape tape;
  const Var a = tape.leaf(tensor({1.0F, 2.0F}));
  const Var b = tape.leaf(tensor({3.0F, 4.0F}));
  const auto [sum, difference] = butterfly(a, b);
  const auto [twice_a, twice_b] = butterfly(sum, difference);
  twice_b.backward(kOnes);  // = 2b
  EXPECT_EQ(list(a.gradients()), (std::vector<float>{0.0F, 0.0F}));
  EXPECT_EQ(list(b.gradients()), (std::vector<float>{2.0F, 2.0F}));
}

TEST(Tape, ASecondOutputAloneReceivesAGradient) {
  Tape tape;
  const Var a = tape.leaf(tensor({1.0F}));
  const Var b = tape.leaf(tensor({3.0F}));
  butterfly(a, b).second.backward();
  EXPECT_EQ(a.gradients()[0], 1.0F);
  EXPECT_EQ(b.gradients()[0], -1.0F);
}

TEST(Tape, AHandedOnGradientIsAddedWhereOneArrivedBefore) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  const Var middle = same(x);
  butterfly(same(middle), cube(middle)).first.backward();  // x + x³
  EXPECT_EQ(x.gradients()[0], 13.0F);
}

TEST(Tape, AKeptGradientIsNotHandedOn) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  const Var y = same(cube(x));
  y.keep_gradient();
  same(y).backward();
  EXPECT_EQ(y.gradients()[0], 1.0F);
  EXPECT_EQ(x.gradients()[0], 12.0F);
}

TEST(Tape, ParametersAccumulateOverBackwardsUntilCleared) {
  Parameter p({1});
  p.values()[0] = 2.0F;
  Tape tape;
  for (int i = 1; i <= 3; ++i) {
    cube(tape.parameter(p)).backward();
    tape.clear();
    EXPECT_EQ(p.gradient()[0], 12.0F * static_cast<float>(i));
  }
  p.zero_gradient();
  EXPECT_EQ(p.gradient()[0], 0.0F);
}

TEST(Tape, AFrozenParameterGetsNoGradientNorWhatOnlyItNeeds) {
  Parameter p({1});
  p.values()[0] = 2.0F;
  p.set_frozen(true);
  Tape tape;
  const Var y = cube(tape.parameter(p));
  EXPECT_FALSE(y.needs_gradient());
  expect_error("backward", [&] { y.backward(); }, {"frozen"});
}

TEST(Tape, AParameterLivesUntilBackwardEvenIfItsModelIsGone) {
  Tape tape;
  Var y;
  {
    Parameter p({1});
    p.values()[0] = 2.0F;
    y = cube(tape.parameter(p));
  }
  y.backward();
  EXPECT_EQ(y.item(), 8.0F);
}

TEST(Tape, AParameterThatMovedAfterForwardIsRefused) {
  Parameter p({1});
  Tape tape;
  const Var y = cube(tape.parameter(p));
  const auto memory = [] { return std::shared_ptr<float[]>(new float[1]); };
  p.shared()->move_to(memory(), memory());
  expect_error("backward", [&] { y.backward(); }, {"[1]", "optimiser"});
}

TEST(Parameter, ACopyHasItsOwnNumbers) {
  Parameter p({2});
  Parameter copy = p;
  copy.values()[0] = 1.0F;
  EXPECT_EQ(p.values()[0], 0.0F);
  const Parameter moved = std::move(copy);
  EXPECT_EQ(moved.values()[0], 1.0F);
  EXPECT_FALSE(Parameter().given());
}

TEST(Tape, NoGradRecordsNothing) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  Var y;
  {
    const NoGrad no_grad(tape);
    y = cube(x);
  }
  EXPECT_EQ(y.item(), 8.0F);
  expect_error("backward", [&] { y.backward(); }, {"NoGrad"});
  EXPECT_TRUE(tape.recording());
  const Evaluation evaluation(tape);
  EXPECT_FALSE(tape.recording());
  EXPECT_FALSE(tape.training());
}

TEST(Tape, NoGradientFlowsThroughDetach) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  butterfly(x, cube(x).detach()).first.backward();
  EXPECT_EQ(x.gradients()[0], 1.0F);
}

TEST(Tape, ReshapeSharesValuesAndGradients) {
  Tape tape;
  const Var x = tape.leaf(tensor({1.0F, 2.0F, 3.0F, 4.0F}));
  const Var square = x.reshape({2, -1});
  EXPECT_EQ(square.shape(), (Dims{2, 2}));
  EXPECT_EQ(square.values().data(), x.values().data());
  cube(square).backward(std::vector<float>(4, 1.0F));
  EXPECT_EQ(list(x.gradients()), (std::vector<float>{3.0F, 12.0F, 27.0F, 48.0F}));
  expect_error("reshape", [&] { x.reshape({3, -1}); }, {"[4]", "[3, -1]"});
  expect_error("reshape", [&] { x.reshape({5}); }, {"[4]", "[5]"});
}

TEST(Tape, ASecondBackwardIsRefused) {
  Tape tape;
  const Var y = cube(tape.leaf(tensor({2.0F})));
  y.backward();
  expect_error("backward", [&] { y.backward(); }, {"second backward", "clear()"});
}

TEST(Tape, AVarOfAClearedOrDestroyedTapeIsRefused) {
  std::optional<Tape> tape(std::in_place);
  const Var x = tape->leaf(tensor({2.0F}));
  tape->clear();
  expect_error("Var", [&] { cube(x); }, {"[1]", "cleared or destroyed"});
  const Var y = tape->leaf(tensor({2.0F}));
  tape.reset();
  expect_error("Var", [&] { (void)y.values(); }, {"cleared or destroyed"});
  const Tape next;  // takes over the generation number
  expect_error("Var", [&] { (void)y.item(); }, {"cleared or destroyed"});
  expect_error("Var", [&] { (void)Var().values(); }, {"empty"});
}

TEST(Tape, AVarOfAnotherTapeIsRefused) {
  Tape one;
  Tape other;
  const Var a = one.leaf(tensor({2.0F}));
  const Var b = other.leaf(tensor({2.0F}));
  expect_error("Tape", [&] { butterfly(a, b); }, {"another tape"});
}

TEST(Tape, OnlyALossOfOneElementHasAGradientByItself) {
  Tape tape;
  const Var y = cube(tape.leaf(tensor({2.0F, 3.0F})));
  expect_error("backward", [&] { y.backward(); }, {"[2]"});
  expect_error("backward", [&] { y.backward(std::vector<float>{1.0F}); }, {"1 values", "[2]"});
}

TEST(Tape, GradientsThatWereNotKeptAreRefused) {
  Tape tape;
  const Var x = tape.leaf(tensor({2.0F}));
  const Var y = cube(x);
  const Var unused = tape.leaf(tensor({5.0F}));
  expect_error("Var::gradients", [&] { (void)x.gradients(); }, {"has not run"});
  cube(y).backward();
  expect_error("Var::gradients", [&] { (void)y.gradients(); }, {"keep_gradient()"});
  expect_error("Var::keep_gradient", [&] { y.keep_gradient(); }, {"before"});
  EXPECT_EQ(unused.gradients()[0], 0.0F);
}

TEST(Tape, TheMemoryOfAStepIsUsedAgain) {
  Tape tape;
  size_t used = 0;
  for (int step = 0; step < 4; ++step) {
    Var x = tape.leaf(tensor({1.0F, 1.0F}));
    for (int i = 0; i < 20; ++i) x = cube(x);
    x.backward(kOnes);
    if (step > 0) {
      EXPECT_EQ(tape.used_bytes(), used);
    }
    used = tape.used_bytes();
    tape.clear();
    EXPECT_EQ(tape.used_bytes(), 0U);
  }
  // Gradients that were used up serve again: two, not twenty.
  constexpr size_t kLine = kAlignment;
  EXPECT_EQ(used, kLine + 20 * (kLine + round_up(sizeof(CubeSaved), kLine)) + 2 * kLine);
}

TEST(Tape, AnObserverIsToldOfEachOpForwardAndBackward) {
  struct Observer : TapeObserver {
    void ran(std::string_view op, Pass pass) override {
      told += std::string(op) + (pass == Pass::forward ? " forward, " : " backward, ");
    }
    std::string told;
  } observer;
  Tape tape;
  tape.set_observer(&observer);
  Tensor x({1});
  const auto [sum, difference] = butterfly(cube(tape.leaf(x)), tape.leaf(x));
  sum.backward();
  EXPECT_EQ(observer.told, "cube forward, butterfly forward, butterfly backward, cube backward, ");
  tape.set_observer(nullptr);
  tape.clear();
  cube(tape.leaf(x)).backward();
  EXPECT_EQ(observer.told.find("cube backward, cube"), std::string::npos);
}

TEST(Tape, ClearingAfterABackwardBeginsTheNextStepOfDropout) {
  Tape tape({.seed = 7, .step = 3});
  EXPECT_EQ(tape.next_dropout_site(), 0U);
  EXPECT_EQ(tape.next_dropout_site(), 1U);
  tape.clear();  // an evaluation: no backward
  EXPECT_EQ(tape.step_key().step, 3U);
  cube(tape.leaf(tensor({2.0F}))).backward();
  tape.clear();
  EXPECT_EQ(tape.step_key().step, 4U);
  EXPECT_EQ(tape.next_dropout_site(), 0U);
}

TEST(Tape, AParameterThatChangedAfterForwardIsRefused) {
  Parameter p({1});
  Tape tape;
  const Var y = cube(tape.parameter(p));
  p.values()[0] = 3.0F;
  expect_error("backward", [&] { y.backward(); }, {"[1]", "changed after the forward pass"});
}

TEST(Tape, AParameterFirstUsedWithoutGradientsCanBeTrainedOnTheSameTape) {
  Parameter p({1});
  p.values()[0] = 2.0F;
  Tape tape;
  {
    const NoGrad no_grad(tape);
    cube(tape.parameter(p));
  }
  cube(tape.parameter(p)).backward();
  EXPECT_EQ(p.gradient()[0], 12.0F);
}

}  // namespace
}  // namespace heed
