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

}  // namespace
}  // namespace heed::test
