// The basic ops on a tape: values by plain loops, gradients by central differences, PyTorch's shapes and errors.
#include "heed/autograd/basic_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/expect_error.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

using Inputs = std::span<const Var>;

Tensor tensor(const std::vector<int64_t>& shape, const std::vector<float>& values) {
  Tensor result(shape);
  std::copy(values.begin(), values.end(), result.values().begin());
  return result;
}

void expect_values(const Var& y, const Dims& shape, const std::vector<float>& expected) {
  EXPECT_EQ(y.shape(), shape);
  ASSERT_EQ(y.values().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(y.values()[i], expected[i]) << "element " << i;
}

TEST(BasicOps, ArithmeticBroadcastsAndOperatorsTakeNumbers) {
  Tape tape;
  const Var a = tape.constant(tensor({2, 1, 2}, {1, 2, 3, 4}));
  const Var b = tape.constant(tensor({3, 1}, {10, 20, 30}));
  expect_values(a + b, {2, 3, 2}, {11, 12, 21, 22, 31, 32, 13, 14, 23, 24, 33, 34});
  expect_values(b - a, {2, 3, 2}, {9, 8, 19, 18, 29, 28, 7, 6, 17, 16, 27, 26});
  expect_values(b * b, {3, 1}, {100, 400, 900});
  expect_values(1.0F - 2.0F * b + 1.0F, {3, 1}, {-18, -38, -58});
  expect_values(-(b - 1.0F), {3, 1}, {-9, -19, -29});
}

TEST(BasicOps, GradientsOfArithmeticAreSummedOverBroadcastDimensions) {
  const std::vector<std::vector<std::vector<int64_t>>> shapes = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 3}, {}}, {{2, 1, 3}, {4, 1}}, {{1, 2, 1, 2, 1, 3}, {2, 1, 2, 1, 1}}};
  for (const auto& pair : shapes) {
    const std::vector<Tensor> inputs{random_tensor(pair[0], 1), random_tensor(pair[1], 2)};
    expect_central_differences([](Inputs x) { return x[0] + x[1]; }, inputs);
    expect_central_differences([](Inputs x) { return x[0] - x[1]; }, inputs);
    expect_central_differences([](Inputs x) { return x[1] - x[0]; }, inputs);
    expect_central_differences([](Inputs x) { return x[0] * x[1]; }, inputs);
  }
  expect_central_differences([](Inputs x) { return 2.0F - (x[0] + 3.0F) * 0.5F - 1.0F; }, {random_tensor({2, 3})});
}

// The first consumer in backward writes the gradient and the others add to it, also within one op.
TEST(BasicOps, AVarUsedTwiceGetsTheSumOfItsGradients) {
  const std::vector<Tensor> x{random_tensor({3, 3})};
  expect_central_differences([](Inputs v) { return v[0] + v[0]; }, x);
  expect_central_differences([](Inputs v) { return v[0] - v[0]; }, x);
  expect_central_differences([](Inputs v) { return v[0] * v[0] + v[0]; }, x);
  expect_central_differences([](Inputs v) { return matmul(v[0], v[0], {.b = true}); }, x);
  expect_central_differences([](Inputs v) { return concat({v[0], v[0]}, 1); }, x);
  expect_central_differences([](Inputs v) { return permute(v[0], {1, 0}) * v[0]; }, x);
  expect_central_differences([](Inputs v) { return slice(v[0], 0, 0, 2) + slice(v[0], 0, 1, 3); }, x);
  expect_central_differences([](Inputs v) { return v[0] * sum(v[0], 1, true) + mean(v[0]); }, x);
  expect_central_differences([](Inputs v) { return softmax(v[0], 1) + log_softmax(v[0], 0) * v[0]; }, x, 5e-3);
}

TEST(BasicOps, NoGradientIsComputedForConstants) {
  Tape tape;
  const Var constant = tape.constant(random_tensor({2, 3}));
  const Var leaf = tape.leaf(random_tensor({2, 3}, 2));
  const Var y = sum(leaf + constant) + sum(constant - leaf) + sum(constant * leaf);
  y.backward();
  for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(leaf.gradients()[i], constant.values()[i]);
  EXPECT_FALSE((constant * 2.0F).needs_gradient());
}

TEST(BasicOps, MatmulMultipliesTheLastTwoDimensions) {
  Tape tape;
  const Var a = tape.constant(tensor({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Var b = tape.constant(tensor({3, 2}, {1, 0, 0, 1, 2, 3}));
  expect_values(matmul(a, b), {2, 2}, {7, 11, 16, 23});
  expect_values(matmul(a, a, {.b = true}), {2, 2}, {14, 32, 32, 77});
  expect_values(matmul(b, b, {.a = true}), {2, 2}, {5, 6, 6, 10});
  const Var batch = concat({a.reshape({1, 2, 3}), 2.0F * a.reshape({1, 2, 3})}, 0);
  expect_values(matmul(batch, b), {2, 2, 2}, {7, 11, 16, 23, 14, 22, 32, 46});
}

TEST(BasicOps, GradientsOfMatmul) {
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto product = [=](Inputs x) { return matmul(x[0], x[1], {.a = ta, .b = tb}); };
      const std::vector<int64_t> a = ta ? std::vector<int64_t>{4, 3} : std::vector<int64_t>{3, 4};
      const std::vector<int64_t> b = tb ? std::vector<int64_t>{5, 4} : std::vector<int64_t>{4, 5};
      expect_central_differences(product, {random_tensor(a, 1), random_tensor(b, 2)});
      const auto batched = [](std::vector<int64_t> shape) {
        shape.insert(shape.begin(), {2, 1});
        return shape;
      };
      expect_central_differences(product, {random_tensor(batched(a), 1), random_tensor(batched(b), 2)});
      if (!ta) expect_central_differences(product, {random_tensor(batched(a), 1), random_tensor(b, 2)});
    }
  }
}

TEST(BasicOps, PermuteTransposeSliceAndConcatMoveValues) {
  Tape tape;
  const Var x = tape.constant(tensor({2, 3}, {1, 2, 3, 4, 5, 6}));
  expect_values(permute(x, {1, 0}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_values(transpose(x, -1, 0), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_values(permute(x.reshape({1, 2, 3}), {-1, 0, 1}), {3, 1, 2}, {1, 4, 2, 5, 3, 6});
  expect_values(slice(x, 1, 1, 3), {2, 2}, {2, 3, 5, 6});
  expect_values(slice(x, -1, -1, 3), {2, 1}, {3, 6});
  expect_values(slice(x, 0, 1, 1), {0, 3}, {});
  expect_values(concat({x, slice(x, 1, 0, 1)}, -1), {2, 4}, {1, 2, 3, 1, 4, 5, 6, 4});
  expect_values(concat({x, x}, 0), {4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
}

TEST(BasicOps, GradientsOfPermuteSliceAndConcat) {
  const std::vector<Tensor> x{random_tensor({2, 3, 4})};
  expect_central_differences([](Inputs v) { return permute(v[0], {2, 0, 1}); }, x);
  expect_central_differences([](Inputs v) { return transpose(v[0], 0, 2); }, x);
  expect_central_differences([](Inputs v) { return slice(v[0], 1, 1, 2); }, x);
  for (const int dim : {0, 1, -1}) {
    std::vector<int64_t> other{2, 3, 4};
    other[static_cast<size_t>(dim < 0 ? dim + 3 : dim)] = 2;
    expect_central_differences(
        [=](Inputs v) {
          return concat({v[0], v[1], v[0]}, dim);
        },
        {random_tensor({2, 3, 4}, 1), random_tensor(other, 2)});
  }
}

TEST(BasicOps, ReductionsOverAllOrOneDimension) {
  Tape tape;
  const Var x = tape.constant(tensor({2, 3}, {1, 5, 3, 4, 2, 4}));
  expect_values(sum(x), {}, {19});
  expect_values(sum(x, 0), {3}, {5, 7, 7});
  expect_values(sum(x, -1, true), {2, 1}, {9, 10});
  expect_values(mean(x), {}, {19.0F / 6.0F});
  expect_values(mean(x, 0, true), {1, 3}, {2.5F, 3.5F, 3.5F});
  expect_values(max(x), {}, {5});
  const MaxOfDim rows = max(x, 1);
  expect_values(rows.values, {2}, {5, 4});
  EXPECT_EQ(std::vector<int64_t>(rows.indices.begin(), rows.indices.end()), (std::vector<int64_t>{1, 0}));
  expect_values(max(x, 0, true).values, {1, 3}, {4, 5, 4});
}

TEST(BasicOps, GradientsOfReductions) {
  const std::vector<Tensor> x{random_tensor({2, 3, 4})};
  expect_central_differences([](Inputs v) { return sum(v[0]); }, x);
  expect_central_differences([](Inputs v) { return mean(v[0]); }, x);
  expect_central_differences([](Inputs v) { return max(v[0]); }, x, 2e-4, 1e-3F);
  for (const int dim : {0, 1, -1}) {
    for (const bool keepdim : {false, true}) {
      expect_central_differences([=](Inputs v) { return sum(v[0], dim, keepdim); }, x);
      expect_central_differences([=](Inputs v) { return mean(v[0], dim, keepdim); }, x);
      expect_central_differences([=](Inputs v) { return max(v[0], dim, keepdim).values; }, x, 1e-3, 1e-3F);
    }
  }
}

TEST(BasicOps, SoftmaxOverAnyDimension) {
  Tape tape;
  const Var x = tape.constant(tensor({2, 2}, {0, std::log(3.0F), 0, std::log(9.0F)}));
  expect_values(softmax(x, -1), {2, 2}, {0.25F, 0.75F, 0.1F, 0.9F});
  expect_values(softmax(x, 0), {2, 2}, {0.5F, 0.25F, 0.5F, 0.75F});
  const std::vector<Tensor> random{random_tensor({2, 3, 4})};
  for (const int dim : {0, 1, 2, -1}) {
    expect_central_differences([=](Inputs v) { return softmax(v[0], dim); }, random, 1e-3);
    expect_central_differences([=](Inputs v) { return log_softmax(v[0], dim); }, random, 1e-3);
  }
}

TEST(BasicOps, MaskedFillAndGatherKeepTheirMaskAndIndex) {
  const std::vector<Tensor> x{random_tensor({2, 3, 2})};
  expect_central_differences(
      [](Inputs v) {
        TensorOf<bool> mask({3, 1});  // gone before backward
        mask.values()[1] = true;
        return masked_fill(v[0], mask, -7.0F);
      },
      x);
  expect_central_differences(
      [](Inputs v) {
        TensorOf<int64_t> index({2, 4, 2});
        for (size_t i = 0; i < 16; ++i) index.values()[i] = static_cast<int64_t>(i * i % 3);
        return gather(v[0], -2, index);
      },
      x);
  Tape tape;
  TensorOf<int64_t> index({2, 1});
  index.values()[0] = 2;
  expect_values(gather(tape.constant(tensor({2, 3}, {1, 2, 3, 4, 5, 6})), 1, index), {2, 1}, {3, 4});
  TensorOf<bool> mask({2});
  mask.values()[1] = true;
  expect_values(masked_fill(tape.constant(tensor({2, 2}, {1, 2, 3, 4})), mask, -1.0F), {2, 2}, {1, -1, 3, -1});
}

TEST(BasicOps, SizesOfZero) {
  Tape tape;
  const Var x = tape.leaf(Tensor({2, 0, 3}));
  const Var y = sum(softmax(permute(x, {2, 0, 1}), 0) * 2.0F) + sum(sum(x, 1)) + sum(concat({x, x}, 1));
  EXPECT_EQ(y.item(), 0.0F);
  y.backward();
  EXPECT_TRUE(x.gradients().empty());
  const Var k = tape.constant(Tensor({0, 4}));
  expect_values(matmul(tape.constant(Tensor({1, 0})), k), {1, 4}, {0, 0, 0, 0});
}

TEST(BasicOps, AllocateNothingAfterTheFirstStep) {
  Tape tape;
  const Tensor x = random_tensor({2, 3, 4});
  TensorOf<bool> mask({4});
  TensorOf<int64_t> index({2, 3, 1});
  const auto step = [&] {
    const Var leaf = tape.leaf(x);
    const Var y = log_softmax(matmul(leaf, permute(leaf, {0, 2, 1})) * 0.5F, 1);
    const Var z = concat({y, slice(leaf, 2, 0, 2)}, -1) - mean(leaf, 2, true);
    (sum(max(z, 1).values) + sum(gather(leaf, -1, index)) + sum(masked_fill(leaf, mask, 1.0F))).backward();
    tape.clear();
  };
  step();
  const int64_t before = allocation_count();
  step();
  EXPECT_EQ(allocation_count(), before);
}

TEST(BasicOps, ErrorsNameTheFunctionAndTheShapes) {
  Tape tape;
  const Var x = tape.constant(Tensor({2, 3}));
  const Var y = tape.constant(Tensor({2, 4}));
  expect_error("mul", [&] { (void)(x * y); }, {"[2, 3]", "[2, 4]", "do not broadcast"});
  expect_error("matmul", [&] { (void)matmul(x, y); }, {"[2, 3]", "[2, 4]", "K is 3 in a and 2 in b"});
  expect_error("matmul",
               [&] {
                 (void)matmul(x.reshape({2, 1, 3}), tape.constant(Tensor({1, 3, 2})));
               },
               {"[2, 1, 3]", "[1, 3, 2]", "differ before"});
  expect_error("matmul", [&] { (void)matmul(x.reshape({6}), y); }, {"[6]", "at least 2"});
  expect_error("permute", [&] { (void)permute(x, {0, 0}); }, {"dimension 0 twice", "[2, 3]"});
  expect_error("permute", [&] { (void)permute(x, {0}); }, {"order has 1 dimensions", "[2, 3]"});
  expect_error("transpose", [&] { (void)transpose(x, 0, 2); }, {"dim is 2", "[2, 3]"});
  expect_error("slice", [&] { (void)slice(x, 1, 1, 4); }, {"1 … 4", "[2, 3]", "0 … 3"});
  expect_error("concat", [&] { (void)concat({x, y}, 0); }, {"[2, 3] and [2, 4]", "but for dimension 0"});
  expect_error("sum", [&] { (void)sum(x, -3); }, {"dim is -3", "[2, 3]"});
  expect_error("max", [&] { (void)max(tape.constant(Tensor({2, 0})), 1); }, {"[2, 0]", "no maximum"});
  expect_error("softmax", [&] { (void)softmax(x, 2); }, {"dim is 2"});
  expect_error("masked_fill", [&] { (void)masked_fill(x, TensorOf<bool>({2, 2, 3}), 0.0F); }, {"[2, 2, 3]", "[2, 3]"});
  expect_error("gather", [&] { (void)gather(x, 1, TensorOf<int64_t>({3, 1})); }, {"index has shape [3, 1]", "[2, 3]"});
  Tape other;
  expect_error("Tape", [&] { (void)(x + other.constant(Tensor({2, 3}))); }, {"another tape"});
}

}  // namespace
}  // namespace heed::test
