// Recurrent layers on a tape: what the op adds to recurrent_forward and recurrent_backward, which have tests of their
// own against a reference.
#include "heed/autograd/recurrent_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/tape.h"
#include "tests/support/expect_error.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

constexpr int64_t kInputs = 2, kHidden = 3;

// weight_ih, weight_hh, bias_ih and bias_hh of each direction.
std::vector<Tensor> parameters_of(RecurrentKind kind, int64_t directions) {
  const int64_t gates = recurrent_gates(kind) * kHidden;
  std::vector<Tensor> all;
  for (int64_t d = 0; d < directions; ++d) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{gates, kInputs}, {gates, kHidden}, {gates}, {gates}}) {
      all.push_back(random_tensor(shape, 10 + all.size()));
    }
  }
  return all;
}

std::vector<RecurrentVars> vars_of(std::span<const Var> parameters) {
  std::vector<RecurrentVars> all;
  for (size_t i = 0; i < parameters.size(); i += 4) {
    all.push_back({parameters[i], parameters[i + 1], parameters[i + 2], parameters[i + 3]});
  }
  return all;
}

const std::vector<int64_t> kLengths = {3, 2};

TEST(RecurrentOp, GradientsThroughEachOutput) {
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::lstm, RecurrentKind::gru}) {
    std::vector<Tensor> inputs = parameters_of(kind, 2);
    inputs.push_back(random_tensor({2, 3, kInputs}, 1));
    for (const int which : {0, 1, 2}) {
      if (which == 2 && kind != RecurrentKind::lstm) continue;
      const auto f = [&](std::span<const Var> v) {
        const RecurrentResult result = recurrent(v[8], vars_of(v.first(8)), {.kind = kind, .lengths = kLengths});
        return which == 0 ? result.y : which == 1 ? result.hidden : result.cell;
      };
      expect_central_differences(f, inputs, 5e-3, 0x1p-6F);
    }
  }
}

TEST(RecurrentOp, OneVarMayBeBothFirstStates) {
  std::vector<Tensor> inputs = parameters_of(RecurrentKind::lstm, 1);
  inputs.push_back(random_tensor({2, 3, kInputs}, 1));
  inputs.push_back(random_tensor({1, 2, kHidden}, 2));
  const auto f = [&](std::span<const Var> v) {
    const RecurrentResult result =
        recurrent(v[4], vars_of(v.first(4)), {.kind = RecurrentKind::lstm, .hidden = v[5], .cell = v[5]});
    return concat({result.hidden, result.cell}, 0);
  };
  expect_central_differences(f, inputs, 5e-3, 0x1p-6F);
}

struct Fixture {
  explicit Fixture(RecurrentKind kind = RecurrentKind::gru) {
    for (const Tensor& tensor : parameters_of(kind, 1)) parameters.push_back(tape.leaf(tensor));
    x = tape.leaf(random_tensor({2, 3, kInputs}, 1));
  }
  Tape tape;
  std::vector<Var> parameters;
  Var x;
};

TEST(RecurrentOp, TheLengthsMayBeGoneInBackward) {
  const auto gradient = [](bool overwrite) {
    Fixture f;
    std::vector<int64_t> lengths = kLengths;
    const RecurrentResult result =
        recurrent(f.x, vars_of(f.parameters), {.kind = RecurrentKind::gru, .lengths = lengths});
    if (overwrite) lengths = {1, 1};
    sum(result.y).backward();
    return std::vector<float>(f.x.gradients().begin(), f.x.gradients().end());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(RecurrentOp, NothingIsSavedWithoutGradients) {
  Fixture f;
  const NoGrad no_grad(f.tape);
  const size_t before = f.tape.used_bytes();
  recurrent(f.x, vars_of(f.parameters), {.kind = RecurrentKind::gru});
  EXPECT_EQ(f.tape.used_bytes() - before, 128U + 64U);  // y and hidden, in whole cache lines
}

TEST(RecurrentOp, ShapesThatDoNotFitAreRefused) {
  Fixture f;
  const std::vector<RecurrentVars> vars = vars_of(f.parameters);
  const Var states = f.tape.constant(random_tensor({2, 2, kHidden}));
  expect_error("recurrent",
               [&] {
                 recurrent(states.reshape({4, 3}), vars, {.kind = RecurrentKind::gru});
               },
               {"x has shape [4, 3]", "[B, T, I]"});
  expect_error("recurrent", [&] { recurrent(f.x, {}, {}); }, {"0 directions"});
  expect_error("recurrent", [&] { recurrent(f.x, vars, {.kind = RecurrentKind::gru, .hidden = states}); },
               {"hidden has shape [2, 2, 3]", "[1, 2, 3]"});
  const std::vector<int64_t> zero = {0, 1};
  expect_error("recurrent_forward", [&] { recurrent(f.x, vars, {.kind = RecurrentKind::gru, .lengths = zero}); },
               {"item 0 is 0"});
  expect_error("recurrent_forward", [&] { recurrent(f.x, vars, {.kind = RecurrentKind::lstm}); },
               {"weight_ih has shape [9, 2]", "[12, 2]"});
}

}  // namespace
}  // namespace heed::test
