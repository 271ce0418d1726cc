// Convolution and pooling modules against PyTorch's (tools/goldens/make_convolution.py).
#include "heed/nn/convolution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/nn/embedding.h"
#include "heed/nn/linear.h"
#include "heed/nn/module.h"
#include "heed/nn/pooling.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden_file.h"

namespace heed::test {
namespace {

void expect_close(std::span<const float> got, const Doubles& expected, const std::string& name) {
  ASSERT_EQ(got.size(), expected.values.size()) << name;
  for (size_t i = 0; i < got.size(); ++i) {
    const double value = expected.values[i];
    EXPECT_NEAR(static_cast<double>(got[i]), value, 1e-5 * std::max(1.0, std::abs(value))) << name << ", element " << i;
  }
}

// y = module(x) and its gradients, with the parameters of the golden.
template <class Module, class Call>
void expect_golden(const NnGolden& golden, Module& module, Call call) {
  for (const nn::NamedParameter& each : nn::parameters(module)) {
    const Tensor values = golden.tensor("param/" + each.name);
    ASSERT_EQ(Dims(values.shape()), each.parameter->shape()) << each.name;
    std::copy(values.values().begin(), values.values().end(), each.parameter->values().begin());
  }
  nn::zero_gradients(module);
  Tape tape;
  const Var x = tape.leaf(golden.tensor("in/x"));
  const Var y = call(x);
  ASSERT_EQ(y.shape(), Dims(golden.doubles("out/y").shape));
  y.backward(golden.tensor("in/d_y").values());
  expect_close(y.values(), golden.doubles("out/y"), "y");
  expect_close(x.gradients(), golden.doubles("d/x"), "d_x");
  for (const nn::NamedParameter& each : nn::parameters(module)) {
    expect_close(each.parameter->gradient(), golden.doubles("grad/" + each.name), each.name);
  }
}

nn::Conv1d make_conv1d(const NnGolden& golden) {
  const auto option = [&](const char* name, int64_t otherwise) {
    return golden.option<int64_t>(std::string("arguments/") + name, otherwise);
  };
  return {option("in_channels", 0),
          option("out_channels", 0),
          option("kernel_size", 0),
          {.stride = option("stride", 1),
           .padding = option("padding", 0),
           .dilation = option("dilation", 1),
           .groups = option("groups", 1),
           .bias = golden.option<bool>("arguments/bias", true)}};
}

PoolOptions pool_options(const NnGolden& golden) {
  return {golden.option<int64_t>("arguments/kernel_size"), golden.option<int64_t>("arguments/stride", 0),
          golden.option<int64_t>("arguments/padding", 0)};
}

template <class Module>
void expect_module(const NnGolden& golden, Module module) {
  expect_golden(golden, module, [&](const Var& x) { return module(x); });
}

template <class Module>
void expect_global(const NnGolden& golden) {
  Module module;
  const auto lengths = golden.option<std::vector<int64_t>>("arguments/lengths");
  expect_golden(golden, module, [&](const Var& x) { return module(x, lengths); });
}

TEST(ConvolutionModules, MatchPyTorch) {
  const std::vector<NnGolden> goldens = load_nn_goldens("convolution");
  on_every_isa([&] {
    for (const NnGolden& golden : goldens) {
      SCOPED_TRACE(golden.name());
      const auto module = golden.option<std::string>("module");
      if (module == "Conv1d") {
        expect_module(golden, make_conv1d(golden));
      } else if (module == "MaxPool1d") {
        expect_module(golden, nn::MaxPool1d{pool_options(golden)});
      } else if (module == "AvgPool1d") {
        expect_module(golden, nn::AvgPool1d{pool_options(golden)});
      } else if (module == "MaxPool2d") {
        expect_module(golden, nn::MaxPool2d{pool_options(golden)});
      } else if (module == "GlobalMaxPool") {
        expect_global<nn::GlobalMaxPool>(golden);
      } else if (module == "GlobalMeanPool") {
        expect_global<nn::GlobalMeanPool>(golden);
      } else {
        ADD_FAILURE() << "unknown module " << module;
      }
    }
  });
}

// The classifiers of the course, with the shapes and parameter counts of its tables.
struct ConvClassifier {
  explicit ConvClassifier(bool pooled)
      : second(128, pooled ? 128 : 256, 7, {.stride = 3}), hidden(pooled ? 128 : 256 * 53, 128), pools(pooled) {}

  nn::Embedding words{20000, 128};
  nn::Conv1d first{128, 128, 7, {.stride = 3}};
  nn::Conv1d second;
  nn::Linear hidden;
  nn::Linear classes{128, 2};
  bool pools;

  void parts(auto&& visit) {
    visit("words", words), visit("first", first), visit("second", second), visit("hidden", hidden);
    visit("classes", classes);
  }
};

TEST(ConvolutionModules, HaveTheShapesAndParametersOfTheCourse) {
  for (const bool pooled : {false, true}) {
    ConvClassifier model(pooled);
    EXPECT_EQ(nn::count_parameters(model), pooled ? 2806402 : 4641538);
    Tape tape;
    const NoGrad no_grad(tape);
    Var x = model.words(tape, TensorOf<int64_t>({1, 500}));
    EXPECT_EQ(x.shape(), (Dims{1, 500, 128}));
    x = model.first(x, Activation::relu);
    EXPECT_EQ(x.shape(), (Dims{1, 165, 128}));
    x = model.second(x, Activation::relu);
    EXPECT_EQ(x.shape(), (Dims{1, 53, pooled ? 128 : 256}));
    x = pooled ? nn::GlobalMaxPool{}(x) : nn::Flatten{}(x);
    EXPECT_EQ(x.shape(), (Dims{1, pooled ? 128 : 13568}));
    x = model.classes(model.hidden(x, {.activation = Activation::relu}));
    EXPECT_EQ(x.shape(), (Dims{1, 2}));
  }
}

TEST(Conv1dModule, StartsUniformWithinOneOverTheRootOfItsInputs) {
  nn::Conv1d module(8, 16, 5, {.groups = 2});
  nn::initialise(module, Rng(3));
  const double bound = 1.0 / std::sqrt(4.0 * 5.0);
  double square = 0.0;
  for (const float value : module.weight.values()) {
    EXPECT_LE(std::abs(static_cast<double>(value)), bound);
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(square / static_cast<double>(module.weight.count()), bound * bound / 3.0, 0.1 * bound * bound);
  for (const float value : module.bias.values()) EXPECT_LE(std::abs(static_cast<double>(value)), bound);
}

TEST(Conv1dModule, RefusesWhatCannotBe) {
  expect_error("nn::Conv1d", [] { nn::Conv1d(0, 4, 3); }, {"0 channels"});
  expect_error("nn::Conv1d", [] { nn::Conv1d(4, 4, 3, {.stride = 0}); }, {"stride 0"});
  expect_error("nn::Conv1d", [] { nn::Conv1d(4, 6, 3, {.groups = 4}); }, {"4 groups do not divide 4 channels and 6"});
}

TEST(Flatten, KeepsTheOrderOrGivesPyTorchsForSequences) {
  Tape tape;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const Var x = tape.constant(values.data(), {1, 3, 2});
  const Var plain = nn::Flatten{}(x);
  const Var channels_first = nn::Flatten{.channels_first = true}(x);
  EXPECT_EQ(plain.shape(), (Dims{1, 6}));
  EXPECT_EQ(plain.values().data(), x.values().data());
  EXPECT_EQ(std::vector<float>(channels_first.values().begin(), channels_first.values().end()),
            (std::vector<float>{1, 3, 5, 2, 4, 6}));
  EXPECT_EQ(nn::Flatten{}(x.reshape({1, 1, 3, 2})).shape(), (Dims{1, 6}));
  expect_error("nn::Flatten", [&] { nn::Flatten{.channels_first = true}(plain); }, {"[1, 6]", "[B, T, C]"});
}

}  // namespace
}  // namespace heed::test
