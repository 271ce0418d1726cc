// Pooling against plain loops in double, and its gradients against central differences.
#include "heed/ops/pooling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/reference_convolution.h"
#include "tests/support/strided_tensor.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct PoolCase {
  Shape<4> x;
  PoolWindow window;
};
const PoolCase kCases[] = {
    {{1, 1, 1, 1}, {}},
    {{2, 11, 1, 3}, {{2, 1}, {2, 1}, {0, 0}}},
    {{2, 11, 1, 19}, {{3, 1}, {1, 1}, {1, 0}}},
    {{2, 11, 1, 3}, {{3, 1}, {5, 1}, {1, 0}}},
    {{3, 6, 7, 1}, {{2, 2}, {2, 2}, {0, 0}}},
    {{2, 6, 7, 5}, {{3, 2}, {2, 1}, {1, 1}}},
    {{1, 4, 5, 2}, {{4, 5}, {1, 1}, {0, 0}}},
    {{0, 4, 5, 2}, {{2, 2}, {2, 2}, {0, 0}}},
    {{2, 4, 5, 0}, {{2, 2}, {2, 2}, {0, 0}}},
};
const PoolCase kLarge{{3, 150, 1, 100}, {{5, 1}, {2, 1}, {2, 0}}};

struct Pooled {
  explicit Pooled(const Shape<4>& shape)
      : y(shape, Spread::contiguous, 2), index(static_cast<size_t>(element_count(shape))) {}
  View<int32_t, 4> index_view() { return {index.data(), y.view().shape()}; }

  StridedTensor<4> y;
  std::vector<int32_t> index;
};

void forward(Pool pool, View<const float, 4> x, const PoolWindow& window, Pooled& to) {
  if (pool == Pool::max) return max_pool_forward(x, window, to.y.view(), to.index_view());
  avg_pool_forward(x, window, to.y.view());
}

void backward(Pool pool, View<const float, 4> d_y, const PoolWindow& window, Pooled& pooled,
              const InputGradient<4>& d_x) {
  if (pool == Pool::max) return max_pool_backward(d_y, pooled.index_view(), d_x);
  avg_pool_backward(d_y, window, d_x);
}

TEST(Pooling, ForwardMatchesDoubleAndBackwardTheSlope) {
  on_every_isa([] {
    for (const Pool pool : {Pool::max, Pool::mean}) {
      for (const PoolCase& each : kCases) {
        const Shape<4>& shape = each.x;
        const PoolWindow& window = each.window;
        const StridedTensor<4> x(shape);
        Pooled pooled(pool_shape("test", shape, window));
        forward(pool, x.view(), window, pooled);
        std::vector<int32_t> places;
        expect_gradient(pooled.y, reference_pool(pool, x.values(), shape, window, &places), false, 1e-6);
        if (pool == Pool::max) {
          EXPECT_EQ(pooled.index, places);
        }
        const StridedTensor<4> d_y(pooled.y.view().shape(), Spread::contiguous, 3);
        const auto expected = central_differences([&](const auto& v) { return reference_pool(pool, v, shape, window); },
                                                  x.values(), d_y.values(), 1e-6);
        for (const bool add : {false, true}) {
          StridedTensor<4> d_x(shape, Spread::contiguous, 4);
          backward(pool, d_y.view(), window, pooled, {d_x.view(), add});
          expect_gradient(d_x, expected, add, 2e-6);
        }
      }
    }
  });
}

TEST(Pooling, MaxFindsTheFirstMaximumAndNanIsTheLargest) {
  on_every_isa([] {
    for (const float top : {2.0F, std::numeric_limits<float>::infinity(), kNan}) {
      std::vector<float> x(size_t{9} * 20, -std::numeric_limits<float>::infinity());
      for (const size_t t : {1U, 4U, 5U, 7U}) x[t * 20 + 19] = top;
      if (std::isnan(top)) x[19] = 5.0F;
      Pooled pooled({1, 3, 1, 20});
      max_pool_forward({x.data(), {1, 9, 1, 20}}, {{3, 1}, {3, 1}, {0, 0}}, pooled.y.view(), pooled.index_view());
      for (int64_t p = 0; p < 3; ++p) {
        EXPECT_EQ(pooled.y.view()(0, p, 0, 0), -std::numeric_limits<float>::infinity());
        EXPECT_EQ(pooled.index_view()(0, p, 0, 0), 3 * p);
        const float got = pooled.y.view()(0, p, 0, 19);
        EXPECT_TRUE(std::isnan(top) ? std::isnan(got) : got == top);
        EXPECT_EQ(pooled.index_view()(0, p, 0, 19), 3 * p + 1);
      }
    }
  });
}

TEST(Pooling, SameBitsForAnyNumberOfThreadsAndAlone) {
  on_every_isa([] {
    for (const Pool pool : {Pool::max, Pool::mean}) {
      const StridedTensor<4> x(kLarge.x);
      const Shape<4> y_shape = pool_shape("test", kLarge.x, kLarge.window);
      const StridedTensor<4> d_y(y_shape, Spread::contiguous, 3);
      Pooled expected(y_shape);
      StridedTensor<4> gradient(kLarge.x);
      forward(pool, x.view(), kLarge.window, expected);
      backward(pool, d_y.view(), kLarge.window, expected, gradient.view());
      const Threads threads(1);
      Pooled single(y_shape);
      StridedTensor<4> again(kLarge.x);
      forward(pool, x.view(), kLarge.window, single);
      backward(pool, d_y.view(), kLarge.window, single, again.view());
      expect_same_bits<4>(single.y.view(), expected.y.view());
      expect_same_bits<4>(again.view(), gradient.view());
      EXPECT_EQ(single.index, expected.index);
      Pooled alone({1, y_shape[1], y_shape[2], y_shape[3]});
      forward(pool, x.view().slice(0, 1, 1), kLarge.window, alone);
      expect_same_bits<3>(alone.y.view()[0], expected.y.view()[1]);
    }
  });
}

void global_forward(Pool pool, View<const float, 3> x, View<const int64_t, 1> lengths, View<float, 2> y,
                    View<int64_t, 2> index) {
  if (pool == Pool::max) return global_max_forward(x, lengths, y, index);
  global_mean_forward(x, lengths, y);
}

TEST(GlobalPooling, PositionsPastTheLengthDoNotCountAndNothingGivesZero) {
  on_every_isa([] {
    const Shape<3> shape{4, 7, 19};
    const std::vector<int64_t> lengths{5, 0, 7, 1};
    const std::vector<int64_t> all(4, 7);
    for (const Pool pool : {Pool::max, Pool::mean}) {
      StridedTensor<3> x(shape);
      const StridedTensor<2> d_y({4, 19}, Spread::contiguous, 3);
      for (const bool given : {true, false}) {
        const std::vector<int64_t>& counted = given ? lengths : all;
        const View<const int64_t, 1> view =
            given ? View<const int64_t, 1>(lengths.data(), {4}) : View<const int64_t, 1>();
        const auto reference = [&](const std::vector<double>& v) {
          return reference_global_pool(pool, v, shape, counted);
        };
        const auto expected = reference(x.values());
        const auto slope = central_differences(reference, x.values(), d_y.values(), 1e-6);
        if (given) x.view()(1, 0, 3) = x.view()(0, 5, 2) = kNan;  // not counted
        StridedTensor<2> y({4, 19});
        std::vector<int64_t> index(size_t{4} * 19, -7);
        const View<int64_t, 2> places(index.data(), {4, 19});
        global_forward(pool, x.view(), view, y.view(), places);
        expect_gradient(y, expected, false, 1e-6);
        if (given && pool == Pool::max) {
          EXPECT_EQ(places(1, 3), -1);
        }
        for (const bool add : {false, true}) {
          StridedTensor<3> d_x(shape, Spread::contiguous, 4);
          if (pool == Pool::max) global_max_backward(d_y.view(), places, {d_x.view(), add});
          if (pool == Pool::mean) global_mean_backward(d_y.view(), view, {d_x.view(), add});
          expect_gradient(d_x, slope, add, 1e-6);
        }
        x = StridedTensor<3>(shape);
      }
    }
  });
}

TEST(GlobalPooling, SameBitsForAnyNumberOfThreadsAndPaddingAndAlone) {
  on_every_isa([] {
    const StridedTensor<3> x({3, 700, 70});
    const std::vector<int64_t> lengths{650, 700, 3};
    const View<const int64_t, 1> view(lengths.data(), {3});
    for (const Pool pool : {Pool::max, Pool::mean}) {
      StridedTensor<2> expected({3, 70}), single({3, 70}), alone({1, 70});
      std::vector<int64_t> index(210), other(210);
      global_forward(pool, x.view(), view, expected.view(), {index.data(), {3, 70}});
      {
        const Threads threads(1);
        global_forward(pool, x.view(), view, single.view(), {other.data(), {3, 70}});
        expect_same_bits<2>(single.view(), expected.view());
        if (pool == Pool::max) {
          EXPECT_EQ(index, other);
        }
      }
      const View<const float, 3> first = x.view().slice(0, 0, 1).slice(1, 0, 650);
      global_forward(pool, first, {}, alone.view(), {other.data(), {1, 70}});
      expect_same_bits<1>(alone.view()[0], expected.view()[0]);
    }
  });
}

TEST(Pooling, RefusesWhatDoesNotFit) {
  const StridedTensor<4> x({2, 6, 1, 3});
  Pooled pooled({2, 3, 1, 3});
  const auto pool = [&](const PoolWindow& window) {
    return [&, window] { max_pool_forward(x.view(), window, pooled.y.view(), pooled.index_view()); };
  };
  expect_error("max_pool_forward", pool({{0, 1}, {2, 1}, {0, 0}}), {"kernel is 0"});
  expect_error("max_pool_forward", pool({{2, 1}, {0, 1}, {0, 0}}), {"stride is 0"});
  expect_error("max_pool_forward", pool({{3, 1}, {2, 1}, {2, 0}}), {"padding is 2 for a kernel of 3", "half"});
  expect_error("max_pool_forward", pool({{7, 1}, {1, 1}, {0, 0}}), {"a kernel of 7 is longer than x", "6 elements"});
  expect_error("max_pool_forward", pool({{3, 1}, {3, 1}, {0, 0}}), {"y has shape [2, 3, 1, 3], expected [2, 2, 1, 3]"});
  expect_error("avg_pool_forward",
               [&] {
                 avg_pool_forward(x.view(), {{2, 2}, {1, 1}, {0, 0}}, pooled.y.view());
               },
               {"a kernel of 2 is longer than x, which has 1"});
  StridedTensor<4> d_x({2, 6, 1, 3});
  pooled.index.back() = 6;
  expect_error("max_pool_backward", [&] { max_pool_backward(pooled.y.view(), pooled.index_view(), d_x.view()); },
               {"index has 6 for a plane of 6", "max_pool_forward"});
  const StridedTensor<3> sequence({2, 5, 3});
  StridedTensor<2> y({2, 3});
  const std::vector<int64_t> lengths{5, 6};
  expect_error("global_mean_forward",
               [&] {
                 global_mean_forward(sequence.view(), {lengths.data(), {2}}, y.view());
               },
               {"item 1 has length 6", "[2, 5, 3]", "0 … 5"});
  expect_error("global_mean_forward",
               [&] {
                 global_mean_forward(sequence.view(), {lengths.data(), {1}}, y.view());
               },
               {"lengths has shape [1], expected [2]"});
}

}  // namespace
}  // namespace heed::test
