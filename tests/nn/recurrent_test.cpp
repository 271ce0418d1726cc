// RNN, LSTM and GRU as modules, against PyTorch's (tools/goldens/make_recurrent.py).
#include "heed/nn/recurrent.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/tape.h"
#include "heed/nn/module.h"
#include "heed/nn/state.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_file.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

nn::RecurrentLayers make_module(const NnGolden& golden) {
  nn::RecurrentOptions options;
  options.inputs = golden.option<int64_t>("arguments/input_size");
  options.hidden = golden.option<int64_t>("arguments/hidden_size");
  options.layers = golden.option<int64_t>("arguments/num_layers");
  options.bidirectional = golden.option<bool>("arguments/bidirectional");
  options.bias = golden.option<bool>("arguments/bias");
  const std::string module = golden.option<std::string>("module");
  if (module == "LSTM") return nn::LSTM(options);
  if (module == "GRU") return nn::GRU(options);
  if (golden.option<std::string>("arguments/nonlinearity") == "relu") options.nonlinearity = Activation::relu;
  return nn::RNN(options);
}

void expect_close(std::span<const float> got, const Doubles& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.values.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    const double tolerance = 1e-5 * std::max(1.0, std::abs(expected.values[i]));
    ASSERT_NEAR(static_cast<double>(got[i]), expected.values[i], tolerance) << what << ", element " << i;
  }
}

// Σ weights ∘ y.
Var weighted(const Var& y, const Tensor& weights) { return sum(y * y.tape().constant(weights)); }

void compare_with(const NnGolden& golden) {
  SCOPED_TRACE(golden.name());
  nn::RecurrentLayers module = make_module(golden);
  const std::vector<nn::NamedParameter> parameters = nn::parameters(module);
  const std::vector<std::string> names = golden.names("param/");
  ASSERT_EQ(parameters.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_EQ(parameters[i].name, names[i]);
    const Tensor values = golden.tensor("param/" + names[i]);
    ASSERT_EQ(parameters[i].parameter->shape(), Dims(values.shape()));
    std::copy(values.values().begin(), values.values().end(), parameters[i].parameter->values().begin());
  }
  Tape tape;
  const auto leaf = [&](const std::string& name) { return golden.has(name) ? tape.leaf(golden.tensor(name)) : Var(); };
  const Var x = leaf("in/x"), hidden = leaf("in/h_0"), cell = leaf("in/c_0");
  const std::vector<int64_t> lengths = golden.option<std::vector<int64_t>>("lengths", {});
  const nn::RecurrentOutput result = module(x, {.lengths = lengths, .hidden = hidden, .cell = cell});
  expect_close(result.output.values(), golden.doubles("out/y"), "y");
  expect_close(result.hidden.values(), golden.doubles("out/h_n"), "h_n");
  Var loss = weighted(result.output, golden.tensor("in/d_y")) + weighted(result.hidden, golden.tensor("in/d_h_n"));
  ASSERT_EQ(result.cell.given(), golden.has("out/c_n"));
  if (result.cell.given()) {
    expect_close(result.cell.values(), golden.doubles("out/c_n"), "c_n");
    loss = loss + weighted(result.cell, golden.tensor("in/d_c_n"));
  }
  loss.backward();
  expect_close(x.gradients(), golden.doubles("d/x"), "d_x");
  if (hidden.given()) expect_close(hidden.gradients(), golden.doubles("d/h_0"), "d_h_0");
  if (cell.given()) expect_close(cell.gradients(), golden.doubles("d/c_0"), "d_c_0");
  for (const nn::NamedParameter& each : parameters) {
    expect_close(each.parameter->gradient(), golden.doubles("grad/" + each.name), each.name);
  }
}

TEST(Recurrent, OutputsAndGradientsArePyTorchs) {
  const std::vector<NnGolden> goldens = load_nn_goldens("recurrent");
  EXPECT_EQ(goldens.size(), 40U);
  on_every_isa([&] {
    for (const NnGolden& golden : goldens) compare_with(golden);
  });
}

// The counts of the course's models, less embedding and classifier.
TEST(Recurrent, CountsOfParametersArePyTorchs) {
  nn::RNN rnn({.inputs = 128, .hidden = 64});
  nn::GRU gru({.inputs = 128, .hidden = 64});
  nn::LSTM lstm({.inputs = 128, .hidden = 64, .layers = 2, .bidirectional = true});
  EXPECT_EQ(nn::count_parameters(rnn), 12416);
  EXPECT_EQ(nn::count_parameters(gru), 37248);
  EXPECT_EQ(nn::count_parameters(lstm), 198656);
}

TEST(Recurrent, ParametersStartUniformWithinOneOverTheRootOfTheHiddenUnits) {
  nn::GRU gru({.inputs = 5, .hidden = 16, .layers = 2, .bidirectional = true});
  nn::initialise(gru, Rng(3));
  for (const nn::NamedParameter& each : nn::parameters(gru)) {
    float most = 0.0F;
    for (const float value : each.parameter->values()) most = std::max(most, std::abs(value));
    EXPECT_LE(most, 0.25F) << each.name;
    EXPECT_GT(most, 0.2F) << each.name;
  }
}

TEST(Recurrent, SavesAndLoadsUnderPyTorchsNames) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/lstm.safetensors";
  const nn::RecurrentOptions options{.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true};
  nn::LSTM from(options), to(options);
  nn::initialise(from, Rng(1));
  nn::save(from, path);
  nn::load(to, path);
  EXPECT_EQ(nn::parameters(to).back().name, "bias_hh_l1_reverse");
  const auto values = [](nn::LSTM& lstm) {
    std::vector<float> all;
    for (const nn::NamedParameter& each : nn::parameters(lstm)) {
      all.insert(all.end(), each.parameter->values().begin(), each.parameter->values().end());
    }
    return all;
  };
  EXPECT_EQ(values(to), values(from));
}

TEST(Recurrent, DropoutIsBetweenTheLayersWhileTheTapeIsTraining) {
  const auto output = [](int64_t layers, float dropout, bool training) {
    nn::GRU gru({.inputs = 3, .hidden = 4, .layers = layers, .dropout = dropout});
    nn::initialise(gru, Rng(1));
    Tape tape;
    const Tensor x = random_tensor({2, 5, 3});
    const auto run = [&] {
      const Var y = gru(tape.constant(x)).output;
      return std::vector<float>(y.values().begin(), y.values().end());
    };
    if (training) return run();
    const Evaluation evaluation(tape);
    return run();
  };
  EXPECT_EQ(output(1, 0.5F, true), output(1, 0.0F, true));
  EXPECT_NE(output(2, 0.5F, true), output(2, 0.0F, true));
  EXPECT_EQ(output(2, 0.5F, false), output(2, 0.0F, true));
}

TEST(Recurrent, AFrozenLayerPassesGradientsOn) {
  nn::LSTM lstm({.inputs = 3, .hidden = 4, .bidirectional = true});
  nn::initialise(lstm, Rng(1));
  const auto gradient_of_x = [&] {
    Tape tape;
    const Var x = tape.leaf(random_tensor({2, 5, 3}));
    sum(lstm(x).output).backward();
    return std::vector<float>(x.gradients().begin(), x.gradients().end());
  };
  const std::vector<float> expected = gradient_of_x();
  nn::zero_gradients(lstm);
  nn::freeze(lstm);
  EXPECT_EQ(gradient_of_x(), expected);
  for (const nn::NamedParameter& each : nn::parameters(lstm)) {
    for (const float value : each.parameter->gradient()) EXPECT_EQ(value, 0.0F);
  }
}

TEST(Recurrent, AllocatesNothingAfterTheFirstSteps) {
  nn::LSTM lstm({.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true, .dropout = 0.5F});
  nn::initialise(lstm, Rng(1));
  Tape tape;
  const Tensor x = random_tensor({3, 5, 3});
  const std::vector<int64_t> lengths = {5, 2, 3};
  const auto step = [&] {
    const nn::RecurrentOutput result = lstm(tape.leaf(x.values().data(), Dims(x.shape())), {.lengths = lengths});
    (sum(result.output) + sum(result.hidden)).backward();
    tape.clear();
  };
  step();
  step();
  const int64_t allocations = allocation_count();
  step();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(Recurrent, RefusesOptionsAndCallsThatDoNotFit) {
  expect_error("nn::RNN", [] { nn::RNN({.inputs = 3}); }, {"3 inputs and 0 hidden"});
  expect_error("nn::GRU", [] { nn::GRU({.inputs = 3, .hidden = 4, .layers = 0}); }, {"0 layers"});
  expect_error("nn::LSTM", [] { nn::LSTM({.inputs = 3, .hidden = 4, .dropout = 1.5F}); }, {"dropout is 1.5"});
  expect_error("nn::LSTM", [] { nn::LSTM({.inputs = 3, .hidden = 4, .nonlinearity = Activation::relu}); },
               {"nonlinearity", "only RNN"});
  expect_error("nn::RNN", [] { nn::RNN({.inputs = 3, .hidden = 4, .nonlinearity = Activation::gelu}); },
               {"nonlinearity", "relu"});
  Tape tape;
  const nn::GRU gru({.inputs = 3, .hidden = 4, .layers = 2});
  const Var x = tape.constant(random_tensor({2, 5, 3})), states = tape.constant(random_tensor({2, 2, 4}));
  expect_error("nn::GRU", [&] { gru(states); }, {"x has shape [2, 2, 4]", "[B, T, 3]"});
  expect_error("nn::GRU", [&] { gru(x, {.hidden = x}); }, {"hidden has shape [2, 5, 3]", "[2, 2, 4]"});
  expect_error("nn::GRU", [&] { gru(x, {.cell = states}); }, {"only LSTM"});
  const std::vector<int64_t> lengths = {5, 6};
  expect_error([&] { gru(x, {.lengths = lengths}); }, {"item 1 is 6", "1 … 5"});
}

}  // namespace
}  // namespace heed::test
