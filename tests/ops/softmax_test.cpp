// Softmax and log-softmax against plain loops in double, and their gradients against central differences.
#include "heed/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/reference_basic_ops.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Spread kRowSpreads[] = {Spread::contiguous, Spread::padded};

void forward(bool logarithm, View<const float, 2> x, View<float, 2> y) {
  if (logarithm) return log_softmax_forward(x, y);
  softmax_forward(x, y);
}

void backward(bool logarithm, View<const float, 2> y, View<const float, 2> d_y, const InputGradient<2>& d_x) {
  if (logarithm) return log_softmax_backward(y, d_y, d_x);
  softmax_backward(y, d_y, d_x);
}

TEST(Softmax, ForwardMatchesDouble) {
  on_every_isa([] {
    for (const bool logarithm : {false, true}) {
      for (const Spread spread : kRowSpreads) {
        for (const int64_t width : {0, 1, 2, 15, 16, 33, 100, 3000}) {
          StridedTensor<2> x({3, width}, spread);
          for (int64_t i = 0; i < width; ++i) x.view()(1, i) = x.view()(1, i) * 30.0F + 1e4F;
          StridedTensor<2> y({3, width}, spread, 2);
          forward(logarithm, x.view(), y.view());
          expect_gradient(y, width == 0 ? std::vector<double>() : reference_softmax(logarithm, x.values(), width),
                          false, logarithm ? 1e-5 : 3e-7);
        }
      }
    }
  });
}

TEST(Softmax, BackwardIsTheSlopeTimesTheGradientWrittenOrAdded) {
  on_every_isa([] {
    for (const bool logarithm : {false, true}) {
      for (const Spread spread : kRowSpreads) {
        for (const int64_t width : {1, 5, 16, 35}) {
          const StridedTensor<2> x({3, width}, spread, 1);
          const StridedTensor<2> d_y({3, width}, spread, 2);
          StridedTensor<2> y({3, width}, spread);
          forward(logarithm, x.view(), y.view());
          const auto expected =
              central_differences([&](const auto& values) { return reference_softmax(logarithm, values, width); },
                                  x.values(), d_y.values());
          for (const bool add : {false, true}) {
            StridedTensor<2> d_x({3, width}, spread, 3);
            backward(logarithm, y.view(), d_y.view(), {d_x.view(), add});
            expect_gradient(d_x, expected, add, 3e-6);
          }
        }
      }
    }
  });
}

TEST(Softmax, MinusInfinityHasTheWeightZeroAlsoWhereTheWholeRowIs) {
  on_every_isa([] {
    for (const int64_t width : {1, 7, 40}) {
      StridedTensor<2> x({2, width});
      for (int64_t i = 0; i < width; ++i) x.view()(1, i) = -kInfinity;
      if (width > 1) x.view()(0, 0) = -kInfinity;
      StridedTensor<2> y({2, width});
      softmax_forward(x.view(), y.view());
      StridedTensor<2> logarithms({2, width});
      log_softmax_forward(x.view(), logarithms.view());
      for (int64_t i = 0; i < width; ++i) {
        EXPECT_EQ(y.view()(1, i), 0.0F);
        EXPECT_EQ(logarithms.view()(1, i), -kInfinity);
      }
      if (width > 1) {
        EXPECT_EQ(y.view()(0, 0), 0.0F);
        EXPECT_EQ(logarithms.view()(0, 0), -kInfinity);
        EXPECT_GT(y.view()(0, 1), 0.0F);
      }
      StridedTensor<2> d_x({2, width});
      const StridedTensor<2> d_y({2, width}, Spread::contiguous, 5);
      softmax_backward(y.view(), d_y.view(), d_x.view());
      for (int64_t i = 0; i < width; ++i) EXPECT_EQ(d_x.view()(1, i), 0.0F);
    }
  });
}

TEST(Softmax, ARowWithNanOrInfinityIsNan) {
  on_every_isa([] {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInfinity}) {
      for (const int64_t place : {0, 3, 18}) {
        StridedTensor<2> x({2, 19});
        x.view()(0, place) = bad;
        StridedTensor<2> y({2, 19});
        softmax_forward(x.view(), y.view());
        StridedTensor<2> logarithms({2, 19});
        log_softmax_forward(x.view(), logarithms.view());
        EXPECT_TRUE(std::isnan(y.view()(0, place)));
        EXPECT_TRUE(std::isnan(logarithms.view()(0, place)));
        EXPECT_FALSE(std::isnan(y.view()(1, 0)));
        if (std::isnan(bad)) {
          EXPECT_TRUE(std::isnan(y.view()(0, 7)));
          EXPECT_TRUE(std::isnan(logarithms.view()(0, 7)));
        }
      }
    }
  });
}

TEST(Softmax, SameBitsForAnyNumberOfThreadsAloneAndInPlace) {
  on_every_isa([] {
    const StridedTensor<2> x({200, 257}, Spread::contiguous, 1);
    const StridedTensor<2> d_y({200, 257}, Spread::contiguous, 2);
    for (const bool logarithm : {false, true}) {
      StridedTensor<2> y({200, 257});
      StridedTensor<2> d_x({200, 257});
      forward(logarithm, x.view(), y.view());
      backward(logarithm, y.view(), d_y.view(), d_x.view());
      for (const int count : {1, 3}) {
        const Threads threads(count);
        StridedTensor<2> in_place({200, 257}, Spread::contiguous, 1);
        forward(logarithm, in_place.view(), in_place.view());
        expect_same_bits<2>(in_place.view(), y.view());
        StridedTensor<2> gradient({200, 257}, Spread::contiguous, 2);
        backward(logarithm, y.view(), gradient.view(), gradient.view());
        expect_same_bits<2>(gradient.view(), d_x.view());
      }
      StridedTensor<2> alone({1, 257});
      forward(logarithm, x.view().slice(0, 7, 1), alone.view());
      expect_same_bits<1>(View<const float, 2>(alone.view())[0], View<const float, 2>(y.view())[7]);
    }
  });
}

TEST(Softmax, RefusesShapesAndStridesThatDoNotFit) {
  StridedTensor<2> x({3, 4});
  StridedTensor<2> other({4, 3});
  const StridedTensor<2> gapped({3, 4}, Spread::gapped);
  expect_error("softmax_forward", [&] { softmax_forward(x.view(), other.view()); }, {"y has shape [4, 3]", "[3, 4]"});
  expect_error("log_softmax_forward", [&] { log_softmax_forward(gapped.view(), x.view()); }, {"x", "contiguous"});
  expect_error("softmax_backward", [&] { softmax_backward(x.view(), other.view(), x.view()); },
               {"d_y has shape [4, 3]"});
  expect_error("log_softmax_backward",
               [&] { log_softmax_backward(x.view().slice(0, 0, 2), x.view().slice(0, 0, 2), x.view().slice(0, 1, 2)); },
               {"d_x", "shares memory"});
}

}  // namespace
}  // namespace heed::test
