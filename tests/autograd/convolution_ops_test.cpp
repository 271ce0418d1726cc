// Convolution and pooling on a tape. The functions on views beneath them have their own tests against references; here
// gradients are compared with central differences of the op itself.
#include "heed/autograd/convolution_ops.h"

#include <gtest/gtest.h>

#include <vector>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/layer_ops.h"
#include "heed/autograd/tape.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

TEST(Conv1dOp, GradientsOfInputWeightAndBias) {
  const std::vector<Tensor> inputs = {random_tensor({2, 9, 4}, 1), random_tensor({6, 4, 3}, 2), random_tensor({6}, 3)};
  for (const Conv1dGeometry& geometry : {Conv1dGeometry{.stride = 2, .padding = 1}, {.dilation = 2}}) {
    const auto op = [&](std::span<const Var> v) { return conv1d(v[0], v[1], v[2], geometry); };
    expect_central_differences(op, inputs);
    const auto twice = [&](std::span<const Var> v) {
      const Var x = conv1d(v[0], v[1], v[2], geometry);
      return x + conv1d(v[0], v[1], {}, geometry, Activation::none);
    };
    expect_central_differences(twice, inputs);
  }
  const auto grouped = [](std::span<const Var> v) { return conv1d(v[0], v[1], v[2], {.padding = 1, .groups = 2}); };
  expect_central_differences(grouped, {inputs[0], random_tensor({6, 2, 3}, 2), inputs[2]});
}

TEST(Conv1dOp, AnActivationInTheSamePassIsOneOfItsOwn) {
  const Tensor x = random_tensor({2, 9, 4}, 1), weight = random_tensor({6, 4, 3}, 2);
  std::vector<std::vector<float>> results;
  for (const bool fused : {false, true}) {
    Tape tape;
    const Var in = tape.leaf(x), w = tape.leaf(weight);
    const Var y = fused ? conv1d(in, w, {}, {.stride = 2}, Activation::relu) : relu(conv1d(in, w, {}, {.stride = 2}));
    y.backward(random_tensor({y.count()}, 3).values());
    for (const auto& values : {y.values(), in.gradients(), w.gradients()}) {
      results.emplace_back(values.begin(), values.end());
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(results[i], results[i + 3]);
}

// A step that no rounding of x crosses a tie in.
TEST(PoolingOps, Gradients) {
  const std::vector<Tensor> x = {random_tensor({2, 9, 3}, 1)};
  const PoolOptions options{.kernel = 3, .stride = 2, .padding = 1};
  const auto check = [&](const VarFunction& op) { expect_central_differences(op, x, 1e-3, 1e-3F); };
  check([&](std::span<const Var> v) { return max_pool1d(v[0], options); });
  check([&](std::span<const Var> v) { return avg_pool1d(v[0], options); });
  check([&](std::span<const Var> v) { return max_pool2d(v[0], options); });
  check([&](std::span<const Var> v) { return avg_pool2d(v[0], options); });
  check([&](std::span<const Var> v) { return max_pool1d(v[0], {.kernel = 2}) + avg_pool1d(v[0], {.kernel = 2}); });
  const std::vector<int64_t> lengths = {4, 0};
  for (const std::span<const int64_t> given : {std::span<const int64_t>(), std::span<const int64_t>(lengths)}) {
    check([&](std::span<const Var> v) { return global_max_pool(v[0], given); });
    check([&](std::span<const Var> v) { return global_mean_pool(v[0], given); });
  }
}

TEST(PoolingOps, ShapesAndTheBlocksOfAnImage) {
  Tape tape;
  const std::vector<float> image = {1, 3, 2, 4, 5, 6, 8, 7, 4, 2, 0, 1, 1, 0, 1, 9};
  const Var x = tape.constant(image.data(), {4, 4});
  const Var y = max_pool2d(x, {.kernel = 2});
  EXPECT_EQ(y.shape(), (Dims{2, 2}));
  EXPECT_EQ(std::vector<float>(y.values().begin(), y.values().end()), (std::vector<float>{6, 8, 4, 9}));
  EXPECT_EQ(max_pool2d(x.reshape({2, 1, 4, 2}), {.kernel = 2}).shape(), (Dims{2, 1, 2, 1}));
  EXPECT_EQ(max_pool1d(x.reshape({2, 4, 2}), {.kernel = 3, .stride = 1}).shape(), (Dims{2, 2, 2}));
}

TEST(PoolingOps, TheLengthsMayBeGoneInBackward) {
  Tape tape;
  const Var x = tape.leaf(random_tensor({1, 4, 1}));
  std::vector<int64_t> lengths = {2};
  const Var y = global_mean_pool(x, lengths);
  lengths = {4};
  y.backward(std::vector<float>{1.0F});
  const std::span<const float> gradient = x.gradients();
  EXPECT_EQ(std::vector<float>(gradient.begin(), gradient.end()), (std::vector<float>{0.5F, 0.5F, 0.0F, 0.0F}));
}

TEST(ConvolutionOps, AllocateNothingAfterTheFirstStep) {
  Tape tape;
  Parameter weight({6, 4, 3}), bias({6});
  const Tensor x = random_tensor({2, 12, 4});
  const std::vector<int64_t> lengths = {2, 1};
  const std::vector<float> ones(2 * 6, 1.0F);
  const auto step = [&] {
    const Var in = tape.leaf(x.values().data(), {2, 12, 4});
    Var y = conv1d(in, tape.parameter(weight), tape.parameter(bias), {.padding = 1}, Activation::relu);
    y = avg_pool1d(max_pool1d(y, {.kernel = 2}), {.kernel = 3, .padding = 1});
    (global_max_pool(y, lengths) + global_mean_pool(y, lengths)).backward(ones);
    tape.clear();
  };
  step();
  step();
  const int64_t allocations = allocation_count();
  step();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(ConvolutionOps, NothingIsSavedWithoutGradients) {
  Tape tape;
  const NoGrad no_grad(tape);
  const Var x = tape.leaf(random_tensor({1, 16, 16})), weight = tape.leaf(random_tensor({16, 16, 1}));
  const size_t before = tape.used_bytes();
  global_max_pool(max_pool1d(conv1d(x, weight, {}, {}, Activation::gelu), {.kernel = 1}));
  EXPECT_EQ(tape.used_bytes() - before, (2 * 16 * 16 + 16) * sizeof(float));
}

TEST(ConvolutionOps, ShapesThatDoNotFitAreRefused) {
  Tape tape;
  const Var x = tape.constant(random_tensor({2, 5, 4})), weight = tape.constant(random_tensor({6, 4, 3}));
  const Var matrix = tape.constant(random_tensor({5, 4}));
  expect_error("conv1d", [&] { conv1d(matrix, weight); }, {"x has shape [5, 4]", "[B, T, C]"});
  expect_error("conv1d", [&] { conv1d(x, matrix); }, {"weight has shape [5, 4]", "[outputs, C / groups, kernel]"});
  expect_error("conv1d", [&] { conv1d(x, weight, matrix); }, {"bias has shape [5, 4], expected [6]"});
  expect_error("conv1d", [&] { conv1d(x, weight, {}, {.groups = 3}); }, {"3 groups do not divide 4 channels"});
  expect_error("conv1d", [&] { conv1d(x, weight, {}, {.dilation = 3}); }, {"spans 7 rows, but x has 5"});
  expect_error("max_pool1d", [&] { max_pool1d(matrix, {.kernel = 2}); }, {"[5, 4]", "[B, T, C]"});
  expect_error("avg_pool1d", [&] { avg_pool1d(x, {.kernel = 6}); }, {"a kernel of 6 is longer than x"});
  expect_error("max_pool2d", [&] { max_pool2d(x.reshape({40}), {.kernel = 2}); }, {"[40]", "[..., H, W]"});
  const std::vector<int64_t> one = {3}, long_ones = {3, 6};
  expect_error("global_max_pool", [&] { global_max_pool(x, one); }, {"1 lengths for the 2 items"});
  expect_error("global_max_forward", [&] { global_max_pool(x, long_ones); }, {"item 1 has length 6"});
}

}  // namespace
}  // namespace heed::test
