// dropout_forward and dropout_backward against the mask of dropout_bits, element by element.
#include "heed/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heed/ops/dropout_bits.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr DropoutOptions kOptions{.probability = 0.3F, .seed = 5, .step = 6, .site = 7};

DropoutOptions with(float probability) {
  DropoutOptions options = kOptions;
  options.probability = probability;
  return options;
}

// 0 or 1 / (1 - p)
double factor(const DropoutOptions& options, int64_t row, int64_t column) {
  const DropoutRow words = dropout_row(dropout_call(options.seed, options.step, options.site), row);
  return dropout_bits(words, column) < dropout_threshold(options.probability) ? 0.0
                                                                              : dropout_scale(options.probability);
}

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

TEST(Dropout, ForwardAndBackwardDrawTheMaskOfTheElement) {
  on_every_isa([] {
    for (const Layout layout : {Layout::rows, Layout::padded_rows, Layout::reversed}) {
      for (const int64_t width : {0, 1, 15, 16, 33, 100}) {
        const Matrix x(5, width, layout, 1), residual(5, width, layout, 2), d_y(5, width, layout, 3);
        for (const bool add : {false, true}) {
          Matrix y(5, width, layout, 4), d_x(5, width, layout, 5);
          const Matrix before = d_x;
          dropout_forward(kOptions, x.view(), add ? residual.view() : View<const float, 2>(), y.view());
          dropout_backward(kOptions, d_y.view(), {d_x.view(), add});
          y.expect_guards();
          d_x.expect_guards();
          for (int64_t i = 0; i < 5; ++i) {
            for (int64_t j = 0; j < width; ++j) {
              const double f = factor(kOptions, i, j);
              ASSERT_NEAR(at(y, i, j), at(x, i, j) * f + (add ? at(residual, i, j) : 0.0), 1e-6);
              ASSERT_NEAR(at(d_x, i, j), at(d_y, i, j) * f + (add ? at(before, i, j) : 0.0), 1e-6);
            }
          }
        }
      }
    }
  });
}

TEST(Dropout, ProbabilityZeroCopiesAndOneGivesZeros) {
  on_every_isa([] {
    Matrix x(3, 21, Layout::rows, 1), y(3, 21, Layout::rows, 2);
    x.view()(0, 0) = -0.0F;
    x.view()(0, 1) = std::numeric_limits<float>::denorm_min();
    dropout_forward(with(0.0F), x.view(), {}, y.view());
    expect_same_bits<2>(y.view(), x.view());
    dropout_forward(with(1.0F), x.view(), {}, y.view());
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 21; ++j) ASSERT_EQ(y.view()(i, j), 0.0F);
    }
  });
}

// The share of dropped elements, and of elements that two masks drop both: that of independent draws.
TEST(Dropout, SeedStepSiteAndRowGiveIndependentMasks) {
  constexpr int64_t kRows = 200, kWidth = 500;
  const DropoutOptions one = with(0.25F);
  for (const DropoutOptions& other : {DropoutOptions{0.25F, 6, 6, 7}, {0.25F, 5, 7, 7}, {0.25F, 5, 6, 8}}) {
    int64_t dropped = 0, both = 0, next_row = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      for (int64_t j = 0; j < kWidth; ++j) {
        const bool first = factor(one, i, j) == 0.0;
        dropped += first ? 1 : 0;
        both += first && factor(other, i, j) == 0.0 ? 1 : 0;
        next_row += first && factor(one, i + 1, j) == 0.0 ? 1 : 0;
      }
    }
    const auto share = [](int64_t n) { return static_cast<double>(n) / static_cast<double>(kRows * kWidth); };
    EXPECT_NEAR(share(dropped), 0.25, 0.006);  // 4 standard deviations
    EXPECT_NEAR(share(both), 0.0625, 0.004);
    EXPECT_NEAR(share(next_row), 0.0625, 0.004);
  }
}

TEST(Dropout, SameBitsForAnyNumberOfThreadsAndInPlace) {
  on_every_isa([] {
    const Matrix x(300, 131, Layout::rows, 1);
    Matrix y(300, 131);
    dropout_forward(with(0.5F), x.view(), {}, y.view());
    const Threads threads(3);
    Matrix in_place = x;
    dropout_forward(with(0.5F), in_place.view(), {}, in_place.view());
    expect_same_bits<2>(in_place.view(), y.view());
    Matrix gradient = x;
    dropout_backward(with(0.5F), gradient.view(), gradient.view());
    expect_same_bits<2>(gradient.view(), y.view());
  });
}

TEST(Dropout, NanPassesThrough) {
  Matrix x(1, 64, Layout::rows, 1), y(1, 64);
  for (int64_t j = 0; j < 64; ++j) x.view()(0, j) = std::numeric_limits<float>::quiet_NaN();
  dropout_forward(with(0.5F), x.view(), {}, y.view());
  for (int64_t j = 0; j < 64; ++j) EXPECT_TRUE(std::isnan(y.view()(0, j)));
}

TEST(Dropout, RefusesWhatDoesNotFit) {
  Matrix x(3, 4), wrong(4, 3);
  for (const float p : {-0.1F, 1.5F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_error([&] { dropout_forward(with(p), x.view(), {}, x.view()); },
                 {"dropout_forward: ", "the probability is ", "0 … 1"});
  }
  expect_error([&] { dropout_forward(with(0.5F), x.view(), {}, wrong.view()); },
               {"dropout_forward: ", "y has shape [4, 3], expected [3, 4]"});
  expect_error([&] { dropout_forward(with(0.5F), x.view(), wrong.view(), x.view()); },
               {"dropout_forward: ", "residual has shape [4, 3]"});
  expect_error([&] { dropout_backward(with(0.5F), x.view(), wrong.view()); },
               {"dropout_backward: ", "d_x has shape [4, 3]"});
}

}  // namespace
}  // namespace heed::test
