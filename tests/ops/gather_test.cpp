#include "heed/ops/gather.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/draw.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/strided_tensor.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

struct Indices {
  Indices(const Shape<3>& shape, int64_t n)
      : values(static_cast<size_t>(element_count(shape))), view(values.data(), shape) {
    Draw draw(7);
    for (int64_t& value : values) value = draw.below(n);
  }
  std::vector<int64_t> values;
  View<const int64_t, 3> view;
};

struct GatherShape {
  int64_t outer, n, k, inner;
};
constexpr GatherShape kShapes[] = {{1, 1, 1, 1},   {2, 5, 3, 4}, {3, 4, 9, 1},
                                   {1, 3, 40, 33}, {2, 3, 0, 4}, {0, 3, 2, 4}};

TEST(Gather, ForwardTakesAndBackwardAddsAtTheIndex) {
  for (const GatherShape& s : kShapes) {
    const Indices index({s.outer, s.k, s.inner}, s.n);
    for (const Spread spread : kSpreads) {
      const StridedTensor<3> x({s.outer, s.n, s.inner}, spread, 1);
      StridedTensor<3> y({s.outer, s.k, s.inner}, spread, 2);
      gather_forward(x.view(), index.view, y.view());
      y.expect_guards();
      const StridedTensor<3> d_y({s.outer, s.k, s.inner}, spread, 3);
      std::vector<double> expected(static_cast<size_t>(x.view().count()));
      for_each_index<3>(y.view().shape(), [&](const Shape<3>& at) {
        const int64_t taken = element(index.view, at);
        ASSERT_EQ(y.at(at), x.at({at[0], taken, at[2]}));
        expected[static_cast<size_t>((at[0] * s.n + taken) * s.inner + at[2])] += d_y.at(at);
      });
      for (const bool add : {false, true}) {
        StridedTensor<3> d_x({s.outer, s.n, s.inner}, spread, 4);
        gather_backward(index.view, d_y.view(), {d_x.view(), add});
        expect_gradient(d_x, expected, add, 1e-5);
      }
    }
  }
}

TEST(Gather, AnIndexRepeatedByAStrideOfZeroGathersRows) {
  const StridedTensor<3> x({1, 5, 20});
  const int64_t rows[] = {4, 0, 4};
  StridedTensor<3> y({1, 3, 20});
  gather_forward(x.view(), {rows, {1, 3, 20}, {0, 1, 0}}, y.view());
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(y.at({0, 2, i}), x.at({0, 4, i}));
}

// Terms of one element are added in the order of the index: the bits are those of a plain loop.
TEST(Gather, BackwardAddsInTheOrderOfTheIndexForAnyNumberOfThreads) {
  const Indices index({3, 500, 70}, 4);
  const StridedTensor<3> d_y({3, 500, 70});
  std::vector<float> expected(3 * 4 * 70);
  for_each_index<3>(index.view.shape(), [&](const Shape<3>& at) {
    expected[static_cast<size_t>((at[0] * 4 + element(index.view, at)) * 70 + at[2])] += element(d_y.view(), at);
  });
  for (const int count : {1, 3}) {
    const Threads threads(count);
    StridedTensor<3> d_x({3, 4, 70}, Spread::contiguous, 2);
    gather_backward(index.view, d_y.view(), d_x.view());
    expect_same_bits<3>(d_x.view(), View<const float, 3>(expected.data(), {3, 4, 70}));
  }
}

TEST(Gather, RefusesAnIndexOutsideAndNamesIt) {
  StridedTensor<3> x({1, 3, 2});
  StridedTensor<3> y({1, 2, 2});
  const int64_t above[] = {0, 1, 3, 0};
  const int64_t below[] = {0, 1, 2, -1};
  expect_error("gather_forward",
               [&] {
                 gather_forward(x.view(), {above, {1, 2, 2}}, y.view());
               },
               {"index is 3 at [0, 1, 0]", "[1, 3, 2]", "0 … 2"});
  expect_error("gather_backward",
               [&] {
                 gather_backward({below, {1, 2, 2}}, y.view(), x.view());
               },
               {"index is -1 at [0, 1, 1]"});
  expect_error("gather_forward",
               [&] {
                 gather_forward(x.view(), {above, {1, 2, 1}}, y.view());
               },
               {"index has shape [1, 2, 1]", "x [1, 3, 2]"});
  expect_error("gather_forward",
               [&] {
                 gather_forward(x.view(), {above, {1, 1, 2}}, y.view());
               },
               {"y has shape [1, 2, 2]"});
}

}  // namespace
}  // namespace heed::test
