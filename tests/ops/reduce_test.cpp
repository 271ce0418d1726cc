// Sum, mean and maximum against plain loops in double, and their gradients against central differences.
#include "heed/ops/reduce.h"

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

constexpr Reduction kReductions[] = {Reduction::sum, Reduction::mean, Reduction::max};
constexpr Shape<3> kShapes[] = {{1, 1, 1},  {3, 5, 1},    {1, 100, 1}, {2, 7, 3},
                                {3, 4, 33}, {1, 70, 100}, {0, 3, 2},   {2, 3, 0}};

struct Reduced {
  explicit Reduced(const Shape<3>& shape) : y({shape[0], shape[2]}), index(static_cast<size_t>(y.view().count()), -1) {}
  View<int64_t, 2> index_view() { return {index.data(), y.view().shape()}; }

  StridedTensor<2> y;
  std::vector<int64_t> index;
};

void forward(Reduction reduction, View<const float, 3> x, Reduced& to) {
  if (reduction == Reduction::sum) sum_forward(x, to.y.view());
  if (reduction == Reduction::mean) mean_forward(x, to.y.view());
  if (reduction == Reduction::max) max_forward(x, to.y.view(), to.index_view());
}

void backward(Reduction reduction, View<const float, 2> d_y, Reduced& reduced, const InputGradient<3>& d_x) {
  if (reduction == Reduction::sum) sum_backward(d_y, d_x);
  if (reduction == Reduction::mean) mean_backward(d_y, d_x);
  if (reduction == Reduction::max) max_backward(d_y, reduced.index_view(), d_x);
}

TEST(Reduce, ForwardMatchesDouble) {
  on_every_isa([] {
    for (const Reduction reduction : kReductions) {
      for (const Shape<3>& shape : kShapes) {
        const StridedTensor<3> x(shape);
        Reduced reduced(shape);
        forward(reduction, x.view(), reduced);
        expect_gradient(reduced.y, reference_reduce(reduction, x.values(), shape), false, 1e-5);
      }
    }
  });
}

TEST(Reduce, BackwardIsTheSlopeTimesTheGradientWrittenOrAdded) {
  on_every_isa([] {
    for (const Reduction reduction : kReductions) {
      for (const Shape<3>& shape : {Shape<3>{1, 1, 1}, {3, 5, 1}, {2, 7, 3}, {2, 4, 19}, {0, 3, 2}, {2, 3, 0}}) {
        const StridedTensor<3> x(shape);
        const StridedTensor<2> d_y({shape[0], shape[2]}, Spread::contiguous, 2);
        Reduced reduced(shape);
        forward(reduction, x.view(), reduced);
        const auto expected = central_differences(
            [&](const auto& values) { return reference_reduce(reduction, values, shape); }, x.values(), d_y.values());
        for (const bool add : {false, true}) {
          StridedTensor<3> d_x(shape, Spread::contiguous, 3);
          backward(reduction, d_y.view(), reduced, {d_x.view(), add});
          expect_gradient(d_x, expected, add, 1e-6);
        }
      }
    }
  });
}

// The relative error of a sum of 2^20 terms is that of 2^10.
TEST(Reduce, LongSumsStayAccurate) {
  on_every_isa([] {
    for (const int64_t inner : {1, 3}) {
      for (const int64_t n : {int64_t{1} << 10, int64_t{1} << 20}) {
        std::vector<float> x(static_cast<size_t>(n * inner));
        double sum = 0.0;
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = 1.0F + Rng(1).uniform(i);
          if (i % static_cast<size_t>(inner) == 0) sum += static_cast<double>(x[i]);
        }
        std::vector<float> y(static_cast<size_t>(inner));
        sum_forward({x.data(), {1, n, inner}}, {y.data(), {1, inner}});
        EXPECT_NEAR(static_cast<double>(y[0]) / sum, 1.0, 5e-7) << n;
        mean_forward({x.data(), {1, n, inner}}, {y.data(), {1, inner}});
        EXPECT_NEAR(static_cast<double>(y[0]) / sum * static_cast<double>(n), 1.0, 5e-7) << n;
      }
    }
  });
}

TEST(Reduce, MaxFindsTheFirstMaximumAndNanIsTheLargest) {
  on_every_isa([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for (const int64_t n : {2, 17, 70}) {
      for (const int64_t inner : {1, 20}) {
        for (const int64_t first : {int64_t{0}, int64_t{1}, n / 2, n - 1}) {
          for (const float top : {2.0F, infinity, nan}) {
            std::vector<float> x(static_cast<size_t>(n * inner), -infinity);
            for (int64_t i = first; i < n; i += 3) x[static_cast<size_t>(i * inner + inner - 1)] = top;
            if (std::isnan(top)) x[static_cast<size_t>(inner - 1)] = first == 0 ? nan : infinity;
            std::vector<float> y(static_cast<size_t>(inner));
            std::vector<int64_t> index(static_cast<size_t>(inner));
            max_forward({x.data(), {1, n, inner}}, {y.data(), {1, inner}}, {index.data(), {1, inner}});
            EXPECT_EQ(std::bit_cast<uint32_t>(y.back()), std::bit_cast<uint32_t>(top));
            EXPECT_EQ(index.back(), first);
            if (inner > 1) {
              EXPECT_EQ(y[0], -infinity);
              EXPECT_EQ(index[0], 0);
            }
          }
        }
      }
    }
  });
}

TEST(Reduce, TheSumOfNothingIsZeroTheMeanNanAndTheMaximumAnError) {
  const View<const float, 3> nothing(nullptr, {2, 0, 3});
  StridedTensor<2> y({2, 3});
  std::vector<int64_t> index(6);
  sum_forward(nothing, y.view());
  EXPECT_EQ(y.at({1, 2}), 0.0);
  mean_forward(nothing, y.view());
  EXPECT_TRUE(std::isnan(y.at({1, 2})));
  expect_error("max_forward",
               [&] {
                 max_forward(nothing, y.view(), {index.data(), {2, 3}});
               },
               {"[2, 0, 3]", "no maximum"});
}

TEST(Reduce, SameBitsForAnyNumberOfThreadsAndAlone) {
  on_every_isa([] {
    for (const Shape<3>& shape : {Shape<3>{2, 100000, 1}, Shape<3>{2, 9000, 20}}) {
      const StridedTensor<3> x(shape);
      for (const Reduction reduction : kReductions) {
        Reduced expected(shape);
        forward(reduction, x.view(), expected);
        for (const int count : {1, 3}) {
          const Threads threads(count);
          Reduced reduced(shape);
          forward(reduction, x.view(), reduced);
          expect_same_bits<2>(reduced.y.view(), expected.y.view());
          EXPECT_EQ(reduced.index, expected.index);
        }
        Reduced alone({1, shape[1], shape[2]});
        forward(reduction, x.view().slice(0, 1, 1), alone);
        expect_same_bits<1>(View<const float, 2>(alone.y.view())[0], View<const float, 2>(expected.y.view())[1]);
      }
    }
  });
}

TEST(Reduce, RefusesShapesAndStridesThatDoNotFit) {
  StridedTensor<3> x({2, 3, 4});
  const StridedTensor<3> gapped({2, 3, 4}, Spread::gapped);
  StridedTensor<2> y({2, 4});
  StridedTensor<2> other({2, 3});
  std::vector<int64_t> index{0, 1, 2, 0, 1, 2, 0, 3};
  expect_error("sum_forward", [&] { sum_forward(x.view(), other.view()); }, {"y has shape [2, 3], expected [2, 4]"});
  expect_error("mean_forward", [&] { mean_forward(gapped.view(), y.view()); }, {"x", "contiguous"});
  expect_error("sum_backward", [&] { sum_backward(other.view(), x.view()); },
               {"d_y has shape [2, 3], expected [2, 4]"});
  expect_error("max_backward",
               [&] {
                 max_backward(y.view(), {index.data(), {2, 4}}, x.view());
               },
               {"index has 3 for 3 elements"});
}

}  // namespace
}  // namespace heed::test
