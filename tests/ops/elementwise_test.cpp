// Elementwise ops with broadcasting against plain loops in double, and their gradients against central differences.
#include "heed/ops/elementwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/reference_basic_ops.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr BinaryOp kOps[] = {BinaryOp::add, BinaryOp::sub, BinaryOp::mul};

struct Shapes {
  Shape<4> a, b, y;
};
constexpr Shapes kShapes[] = {
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}},    {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 3, 4, 5}},
    {{2, 1, 3, 19}, {1, 1, 1, 19}, {2, 1, 3, 19}},  // a row
    {{2, 3, 1, 7}, {1, 1, 1, 1}, {2, 3, 1, 7}},     // a scalar
    {{1, 3, 1, 5}, {2, 1, 4, 1}, {2, 3, 4, 5}},     // both
    {{2, 3, 4, 1}, {1, 3, 1, 17}, {2, 3, 4, 17}},  {{1, 1, 4, 1}, {2, 3, 4, 1}, {2, 3, 4, 1}},
    {{0, 3, 1, 5}, {1, 3, 1, 5}, {0, 3, 1, 5}},    {{1, 1, 2, 0}, {1, 1, 1, 1}, {1, 1, 2, 0}},
};

TEST(Elementwise, ForwardIsTheRoundedResultForAnyShapesAndStrides) {
  on_every_isa([] {
    for (const BinaryOp op : kOps) {
      for (const Shapes& shapes : kShapes) {
        for (const Spread spread : kSpreads) {
          const StridedTensor<4> a(shapes.a, spread, 1);
          const StridedTensor<4> b(shapes.b, spread, 2);
          StridedTensor<4> y(shapes.y, spread, 3);
          binary_forward(op, a.view(), b.view(), y.view());
          y.expect_guards();
          // One operation in double and one rounding give the correctly rounded result.
          const std::vector<double> expected =
              reference_binary(op, a.values(), shapes.a, b.values(), shapes.b, shapes.y);
          size_t n = 0;
          for_each_index<4>(shapes.y, [&](const Shape<4>& index) {
            ASSERT_EQ(element(y.view(), index), static_cast<float>(expected[n++]));
          });
        }
      }
    }
  });
}

TEST(Elementwise, BackwardIsTheSlopeSummedOverBroadcastDimensionsWrittenOrAdded) {
  on_every_isa([] {
    for (const BinaryOp op : kOps) {
      for (const Shapes& shapes : kShapes) {
        for (const Spread spread : kSpreads) {
          const StridedTensor<4> a(shapes.a, spread, 1);
          const StridedTensor<4> b(shapes.b, spread, 2);
          const StridedTensor<4> d_y(shapes.y, spread, 3);
          const std::vector<double> a_values = a.values();
          const std::vector<double> b_values = b.values();
          const auto expected_a = central_differences(
              [&](const auto& x) { return reference_binary(op, x, shapes.a, b_values, shapes.b, shapes.y); }, a_values,
              d_y.values());
          const auto expected_b = central_differences(
              [&](const auto& x) { return reference_binary(op, a_values, shapes.a, x, shapes.b, shapes.y); }, b_values,
              d_y.values());
          for (const bool add : {false, true}) {
            StridedTensor<4> d_a(shapes.a, spread, 4);
            StridedTensor<4> d_b(shapes.b, spread, 5);
            binary_backward(op, a.view(), b.view(), d_y.view(), {d_a.view(), add}, {d_b.view(), add});
            expect_gradient(d_a, expected_a, add, 5e-6);
            expect_gradient(d_b, expected_b, add, 5e-6);
          }
        }
      }
    }
  });
}

TEST(Elementwise, ComputesOnlyTheGradientsAskedFor) {
  const StridedTensor<4> a({1, 1, 2, 3}, Spread::contiguous, 1);
  const StridedTensor<4> b({1, 1, 1, 3}, Spread::contiguous, 2);
  const StridedTensor<4> d_y({1, 1, 2, 3}, Spread::contiguous, 3);
  StridedTensor<4> d_b({1, 1, 1, 3}, Spread::contiguous, 4);
  binary_backward(BinaryOp::mul, a.view(), b.view(), d_y.view(), {}, d_b.view());
  EXPECT_NEAR(d_b.at({0, 0, 0, 1}),
              d_y.at({0, 0, 0, 1}) * a.at({0, 0, 0, 1}) + d_y.at({0, 0, 1, 1}) * a.at({0, 0, 1, 1}), 1e-6);
}

TEST(Elementwise, AddAndSubNeedOnlyTheShapesOfTheirInputs) {
  const View<const float, 4> a(nullptr, {1, 1, 2, 3});
  const View<const float, 4> b(nullptr, {1, 1, 1, 3});
  const StridedTensor<4> d_y({1, 1, 2, 3});
  StridedTensor<4> d_b({1, 1, 1, 3});
  binary_backward(BinaryOp::sub, a, b, d_y.view(), {}, d_b.view());
  EXPECT_FLOAT_EQ(element(d_b.view(), {0, 0, 0, 2}), -(d_y.view()(0, 0, 0, 2) + d_y.view()(0, 0, 1, 2)));
}

TEST(Elementwise, ResultsMayReplaceAnInput) {
  for (const Spread spread : kSpreads) {
    const StridedTensor<4> a({2, 3, 4, 300}, spread, 1);
    const StridedTensor<4> b({2, 3, 4, 300}, spread, 2);
    StridedTensor<4> apart({2, 3, 4, 300}, spread);
    StridedTensor<4> in_place({2, 3, 4, 300}, spread, 1);
    binary_forward(BinaryOp::mul, a.view(), b.view(), apart.view());
    binary_forward(BinaryOp::mul, in_place.view(), b.view(), in_place.view());
    expect_same_bits<4>(in_place.view(), apart.view());
    StridedTensor<4> gradient({2, 3, 4, 300}, spread, 1);
    binary_backward(BinaryOp::mul, a.view(), b.view(), gradient.view(), gradient.view(), {});
    expect_same_bits<4>(gradient.view(), apart.view());
  }
}

TEST(Elementwise, ScaleAddWritesOrAddsAMultipleOfABroadcastInput) {
  on_every_isa([] {
    for (const Spread spread : kSpreads) {
      const StridedTensor<4> x({2, 1, 4, 1}, spread, 1);
      for (const bool add : {false, true}) {
        StridedTensor<4> y({2, 3, 4, 21}, spread, 2);
        scale_add(0.25F, x.view(), {y.view(), add});
        y.expect_guards();
        for_each_index<4>(y.view().shape(), [&](const Shape<4>& index) {
          const double expected = 0.25 * x.at({index[0], 0, index[2], 0}) + (add ? y.before(index) : 0.0);
          ASSERT_EQ(element(y.view(), index), static_cast<float>(expected));
        });
      }
    }
  });
}

// A million terms: block sums in double keep the error where that of a block is.
TEST(Elementwise, LongGradientSumsStayAccurate) {
  on_every_isa([] {
    for (const int64_t n : {int64_t{1} << 10, int64_t{1} << 15, int64_t{1} << 20}) {
      std::vector<float> d_y(static_cast<size_t>(n));
      double sum = 0.0;
      for (size_t i = 0; i < d_y.size(); ++i) {
        d_y[i] = 1.0F + Rng(1).uniform(i);
        sum += static_cast<double>(d_y[i]);
      }
      float d_scalar = 0.0F;
      binary_backward(BinaryOp::add, {nullptr, {1, 1, 1, n}}, {nullptr, {1, 1, 1, 1}}, {d_y.data(), {1, 1, 1, n}}, {},
                      View<float, 4>(&d_scalar, {1, 1, 1, 1}));
      EXPECT_NEAR(static_cast<double>(d_scalar) / sum, 1.0, 3e-7) << n;
      float d_row[2] = {};
      double of_row = 0.0;
      for (size_t i = 0; i < d_y.size(); i += 2) of_row += static_cast<double>(d_y[i]);
      binary_backward(BinaryOp::add, {nullptr, {1, 1, n / 2, 2}}, {nullptr, {1, 1, 1, 2}},
                      {d_y.data(), {1, 1, n / 2, 2}}, {}, View<float, 4>(d_row, {1, 1, 1, 2}));
      EXPECT_NEAR(static_cast<double>(d_row[0]) / of_row, 1.0, 5e-7) << n;
    }
  });
}

TEST(Elementwise, SameBitsForAnyNumberOfThreadsAndStrides) {
  on_every_isa([] {
    const Shape<4> shape{2, 1, 2500, 21};
    const StridedTensor<4> a(shape, Spread::contiguous, 1);
    const StridedTensor<4> d_y(shape, Spread::contiguous, 3);
    const StridedTensor<4> permuted_a(shape, Spread::permuted, 1);
    const StridedTensor<4> gapped_d_y(shape, Spread::gapped, 3);
    // Long enough for several slabs, by columns and by sequences.
    for (const Shape<4>& b_shape : {Shape<4>{1, 1, 1, 21}, Shape<4>{1, 1, 1, 1}, Shape<4>{2, 1, 2500, 1}}) {
      const StridedTensor<4> b(b_shape, Spread::contiguous, 2);
      StridedTensor<4> expected(b_shape);
      binary_backward(BinaryOp::mul, a.view(), b.view(), d_y.view(), {}, expected.view());
      for (const int count : {1, 3}) {
        const Threads threads(count);
        StridedTensor<4> d_b(b_shape, Spread::reversed);
        binary_backward(BinaryOp::mul, permuted_a.view(), b.view(), gapped_d_y.view(), {}, d_b.view());
        expect_same_bits<4>(d_b.view(), expected.view());
      }
    }
  });
}

TEST(Elementwise, AnItemHasTheBitsItHasAlone) {
  on_every_isa([] {
    const StridedTensor<4> a({5, 1, 40, 33}, Spread::contiguous, 1);
    const StridedTensor<4> b({5, 1, 1, 33}, Spread::contiguous, 2);
    const StridedTensor<4> d_y({5, 1, 40, 33}, Spread::contiguous, 3);
    StridedTensor<4> d_b({5, 1, 1, 33});
    binary_backward(BinaryOp::mul, a.view(), b.view(), d_y.view(), {}, d_b.view());
    StridedTensor<4> alone({1, 1, 1, 33});
    binary_backward(BinaryOp::mul, a.view().slice(0, 3, 1), b.view().slice(0, 3, 1), d_y.view().slice(0, 3, 1), {},
                    alone.view());
    expect_same_bits<3>(View<const float, 4>(alone.view())[0], View<const float, 4>(d_b.view())[3]);
  });
}

TEST(Elementwise, NanPassesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float one[] = {1.0F, 1.0F};
  float y[2] = {};
  binary_forward(BinaryOp::mul, {one, {1, 1, 1, 2}}, {&nan, {1, 1, 1, 1}}, {y, {1, 1, 1, 2}});
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  float d_b = 0.0F;
  const float d_y[] = {nan, 1.0F};
  binary_backward(BinaryOp::add, {one, {1, 1, 1, 2}}, {one, {1, 1, 1, 1}}, {d_y, {1, 1, 1, 2}}, {},
                  View<float, 4>(&d_b, {1, 1, 1, 1}));
  EXPECT_TRUE(std::isnan(d_b));
}

TEST(Elementwise, AllocatesNothing) {
  const StridedTensor<4> a({2, 1, 2500, 21}, Spread::gapped, 1);
  const StridedTensor<4> b({1, 1, 1, 21}, Spread::contiguous, 2);
  StridedTensor<4> y({2, 1, 2500, 21});
  StridedTensor<4> d_b({1, 1, 1, 21});
  binary_forward(BinaryOp::mul, a.view(), b.view(), y.view());  // starts the threads
  const int64_t before = allocation_count();
  binary_forward(BinaryOp::mul, a.view(), b.view(), y.view());
  binary_backward(BinaryOp::mul, a.view(), b.view(), y.view(), {}, d_b.view());
  EXPECT_EQ(allocation_count(), before);
}

TEST(Elementwise, RefusesShapesThatDoNotBroadcastAndSharedMemory) {
  StridedTensor<4> a({2, 3, 4, 5});
  StridedTensor<4> b({2, 3, 4, 4});
  StridedTensor<4> y({2, 3, 4, 5});
  expect_error("binary_forward", [&] { binary_forward(BinaryOp::add, a.view(), b.view(), y.view()); },
               {"[2, 3, 4, 5]", "[2, 3, 4, 4]", "must be 1"});
  expect_error("binary_forward", [&] { binary_forward(BinaryOp::add, b.view(), b.view(), y.view()); },
               {"y has shape [2, 3, 4, 5], expected [2, 3, 4, 4]"});
  expect_error("binary_forward",
               [&] {
                 binary_forward(BinaryOp::add, a.view().slice(0, 0, 1), a.view().slice(0, 1, 1),
                                a.view().slice(0, 0, 1).permuted({0, 1, 3, 2}));
               },
               {"y has shape [1, 3, 5, 4]"});
  expect_error("binary_forward", [&] { binary_forward(BinaryOp::add, a.view().slice(0, 0, 1), a.view(), a.view()); },
               {"shares memory with a"});
  expect_error("binary_forward",
               [&] {
                 binary_forward(BinaryOp::add, a.view(), a.view(), {y.view().data(), a.view().shape(), {0, 20, 5, 1}});
               },
               {"stride of 0"});
  expect_error("binary_backward", [&] { binary_backward(BinaryOp::mul, a.view(), a.view(), y.view(), b.view(), {}); },
               {"d_a has shape [2, 3, 4, 4], expected [2, 3, 4, 5]"});
  expect_error("binary_backward", [&] { binary_backward(BinaryOp::mul, a.view(), a.view(), y.view(), a.view(), {}); },
               {"d_a", "shares memory with a"});
  expect_error("scale_add", [&] { scale_add(2.0F, b.view(), y.view()); }, {"x has shape", "does not broadcast"});
}

}  // namespace
}  // namespace heed::test
