#include "heed/ops/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/activations.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr int64_t kWidths[] = {0, 1, 3, 15, 16, 33, 100};
constexpr Layout kRowLayouts[] = {Layout::rows, Layout::padded_rows, Layout::reversed};

TEST(Activation, ForwardMatchesDouble) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      for (const Layout layout : kRowLayouts) {
        for (const int64_t width : kWidths) {
          const Matrix x(5, width, layout, 1);
          const Matrix residual(5, width, layout, 2);
          for (const bool with_residual : {false, true}) {
            Matrix y(5, width, layout, 3);
            activation_forward(activation, x.view(), with_residual ? residual.view() : View<const float, 2>(),
                               y.view());
            y.expect_guards();
            for (int64_t i = 0; i < 5; ++i) {
              for (int64_t j = 0; j < width; ++j) {
                const double expected = activate(activation, static_cast<double>(x.view()(i, j))) +
                                        (with_residual ? static_cast<double>(residual.view()(i, j)) : 0.0);
                ASSERT_NEAR(static_cast<double>(y.view()(i, j)), expected, 1e-6);
              }
            }
          }
        }
      }
    }
  });
}

TEST(Activation, BackwardIsTheSlopeTimesTheGradientWrittenOrAdded) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      for (const Layout layout : kRowLayouts) {
        for (const int64_t width : kWidths) {
          const Matrix x(5, width, layout, 1);
          const Matrix d_y(5, width, layout, 2);
          const Matrix before(5, width, layout, 3);
          for (const bool add : {false, true}) {
            Matrix d_x(5, width, layout, 3);
            activation_backward(activation, x.view(), d_y.view(), {d_x.view(), add});
            d_x.expect_guards();
            for (int64_t i = 0; i < 5; ++i) {
              for (int64_t j = 0; j < width; ++j) {
                const double expected =
                    slope_of(activation, static_cast<double>(x.view()(i, j))) * static_cast<double>(d_y.view()(i, j)) +
                    (add ? static_cast<double>(before.view()(i, j)) : 0.0);
                ASSERT_NEAR(static_cast<double>(d_x.view()(i, j)), expected, 2e-6);
              }
            }
          }
        }
      }
    }
  });
}

// The slopes far from 0, where a formula that loses everything to cancellation or overflow would show.
TEST(Activation, SlopesOfLargeInputs) {
  on_every_isa([] {
    constexpr float kInputs[] = {-1e30F, -1e14F, -100.0F, -30.0F, -12.0F, -6.0F,
                                 6.0F,   12.0F,  30.0F,   100.0F, 1e14F,  1e30F};
    for (const Activation activation : kActivations) {
      for (const float x : kInputs) {
        const float one = 1.0F;
        float slope = 0.0F;
        activation_backward(activation, {&x, {1, 1}}, {&one, {1, 1}}, View<float, 2>(&slope, {1, 1}));
        // Differences say nothing where a step is smaller than a rounding error: there it is a straight line.
        const bool bounded = activation == Activation::tanh || activation == Activation::sigmoid;
        const bool rises = activation == Activation::none || (x > 0.0F && !bounded);
        const double expected = std::abs(x) > 1e6F ? (rises ? 1.0 : 0.0) : slope_of(activation, static_cast<double>(x));
        EXPECT_NEAR(static_cast<double>(slope), expected, 2e-6) << x;
      }
    }
  });
}

TEST(Activation, ReluHasTheSlopeZeroAtZero) {
  const float zeros[] = {0.0F, -0.0F};
  const float ones[] = {1.0F, 1.0F};
  float slope[] = {5.0F, 5.0F};
  activation_backward(Activation::relu, {zeros, {1, 2}}, {ones, {1, 2}}, View<float, 2>(slope, {1, 2}));
  EXPECT_EQ(slope[0], 0.0F);
  EXPECT_EQ(slope[1], 0.0F);
}

TEST(Activation, NothingComesBackThroughAReluThatIsOff) {
  const float x[] = {-1.0F, 2.0F};
  const float infinity = std::numeric_limits<float>::infinity();
  const float d_y[] = {infinity, infinity};
  float d_x[] = {5.0F, 5.0F};
  activation_backward(Activation::relu, {x, {1, 2}}, {d_y, {1, 2}}, View<float, 2>(d_x, {1, 2}));
  EXPECT_EQ(d_x[0], 0.0F);
  EXPECT_EQ(d_x[1], infinity);
}

TEST(Activation, NanPassesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float one = 1.0F;
  for (const Activation activation : kActivations) {
    float y = 0.0F;
    activation_forward(activation, {&nan, {1, 1}}, {}, {&y, {1, 1}});
    EXPECT_TRUE(std::isnan(y));
    float d_x = 0.0F;
    activation_backward(activation, {&one, {1, 1}}, {&nan, {1, 1}}, View<float, 2>(&d_x, {1, 1}));
    EXPECT_TRUE(std::isnan(d_x));
  }
}

TEST(Activation, SameBitsForAnyNumberOfThreadsAndInPlace) {
  on_every_isa([] {
    const Matrix x(300, 257, Layout::rows, 1);
    const Matrix d_y(300, 257, Layout::rows, 2);
    Matrix y(300, 257);
    Matrix d_x(300, 257);
    activation_forward(Activation::gelu, x.view(), d_y.view(), y.view());
    activation_backward(Activation::gelu, x.view(), d_y.view(), d_x.view());
    for (const int count : {1, 3}) {
      const Threads threads(count);
      Matrix in_place(300, 257, Layout::rows, 1);
      activation_forward(Activation::gelu, in_place.view(), d_y.view(), in_place.view());
      expect_same_bits<2>(in_place.view(), y.view());
      Matrix gradient(300, 257, Layout::rows, 2);
      activation_backward(Activation::gelu, x.view(), gradient.view(), gradient.view());
      expect_same_bits<2>(gradient.view(), d_x.view());
    }
  });
}

TEST(Activation, RefusesShapesAndStridesThatDoNotFit) {
  Matrix x(3, 4);
  Matrix other(4, 3);
  Matrix strided(3, 4, Layout::strided);
  expect_error([&] { activation_forward(Activation::relu, x.view(), {}, other.view()); },
               {"activation_forward: ", "y has shape [4, 3]", "[3, 4]"});
  expect_error([&] { activation_forward(Activation::relu, strided.view(), {}, x.view()); }, {"contiguous"});
  expect_error([&] { activation_backward(Activation::relu, x.view(), other.view(), x.view()); },
               {"activation_backward: ", "d_y has shape [4, 3]"});
}

}  // namespace
}  // namespace heed::test
