#include "heed/ops/masked_fill.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/strided_tensor.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr Shape<4> kShape{2, 3, 4, 19};

// Every third element of a dense mask is true.
struct DenseMask {
  explicit DenseMask(const Shape<4>& shape) : view(values.data(), shape) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 1;
  }
  std::array<bool, 2 * 3 * 4 * 19> values{};
  View<const bool, 4> view;
};

bool masked(const View<const bool, 4>& mask, Shape<4> index) {
  for (size_t d = 0; d < 4; ++d) index[d] = mask.shape()[d] == 1 ? 0 : index[d];
  return element(mask, index);
}

TEST(MaskedFill, ForwardFillsAndBackwardStopsWhereTheMaskIsTrue) {
  for (const Shape<4>& mask_shape : {kShape, Shape<4>{2, 1, 1, 19}, Shape<4>{1, 3, 4, 1}, Shape<4>{1, 1, 1, 1}}) {
    const DenseMask mask(mask_shape);
    for (const Spread spread : kSpreads) {
      const StridedTensor<4> x(kShape, spread, 1);
      StridedTensor<4> y(kShape, spread, 2);
      masked_fill_forward(x.view(), mask.view, -kInfinity, y.view());
      y.expect_guards();
      for (const bool add : {false, true}) {
        StridedTensor<4> d_x(kShape, spread, 3);
        masked_fill_backward(mask.view, x.view(), {d_x.view(), add});
        d_x.expect_guards();
        for_each_index<4>(kShape, [&](const Shape<4>& index) {
          const bool hidden = masked(mask.view, index);
          const float value = element(x.view(), index);
          ASSERT_EQ(element(y.view(), index), hidden ? -kInfinity : value);
          const float before = add ? static_cast<float>(d_x.before(index)) : 0.0F;
          ASSERT_EQ(element(d_x.view(), index), hidden ? before : before + value);
        });
      }
    }
  }
}

TEST(MaskedFill, NothingComesBackThroughTheMaskEvenIfTheGradientIsNotFinite) {
  const bool mask[] = {true, false};
  const float d_y[] = {kInfinity, 2.0F};
  float d_x[] = {1.0F, 1.0F};
  masked_fill_backward({mask, {1, 1, 1, 2}}, {d_y, {1, 1, 1, 2}}, {View<float, 4>(d_x, {1, 1, 1, 2}), true});
  EXPECT_EQ(d_x[0], 1.0F);
  EXPECT_EQ(d_x[1], 3.0F);
}

TEST(MaskedFill, SameBitsForAnyNumberOfThreadsAndInPlace) {
  const bool mask[] = {true, false, false};
  const View<const bool, 4> view(mask, {1, 3, 1, 1});
  const StridedTensor<4> x({2, 3, 100, 100});
  StridedTensor<4> y({2, 3, 100, 100});
  masked_fill_forward(x.view(), view, 5.0F, y.view());
  for (const int count : {1, 3}) {
    const Threads threads(count);
    StridedTensor<4> in_place({2, 3, 100, 100});
    masked_fill_forward(in_place.view(), view, 5.0F, in_place.view());
    expect_same_bits<4>(in_place.view(), y.view());
  }
}

TEST(MaskedFill, RefusesMasksThatDoNotBroadcast) {
  const DenseMask mask({1, 1, 4, 19});
  StridedTensor<4> x({2, 3, 4, 18});
  StridedTensor<4> y({2, 3, 4, 19});
  expect_error("masked_fill_forward", [&] { masked_fill_forward(x.view(), mask.view, 0.0F, x.view()); },
               {"mask has shape [1, 1, 4, 19]", "[2, 3, 4, 18]"});
  expect_error("masked_fill_forward", [&] { masked_fill_forward(x.view(), mask.view, 0.0F, y.view()); },
               {"y has shape [2, 3, 4, 19]"});
  expect_error("masked_fill_backward", [&] { masked_fill_backward(mask.view, x.view(), y.view()); },
               {"d_x has shape [2, 3, 4, 19]", "[2, 3, 4, 18]"});
}

}  // namespace
}  // namespace heed::test
