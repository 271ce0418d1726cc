// Sizes whose products overflow, and strides that lead out of any memory.
#include "heed/core/extent.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "heed/core/tensor.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(Extent, ProductsEndAtTheLimits) {
  EXPECT_EQ(multiply_saturating(-3, 4), -12);
  EXPECT_EQ(multiply_saturating(kMost, 2), kMost);
  EXPECT_EQ(multiply_saturating(kMost, -2), kLeast);
  EXPECT_EQ(multiply_saturating(kLeast, -1), kMost);
}

TEST(Extent, AnEmptyViewHasNoElementsWhateverItsOtherSizes) {
  EXPECT_EQ((View<float, 3>(nullptr, {kMost, kMost, 0}).count()), 0);
  EXPECT_EQ((View<float, 3>(nullptr, {0, kMost, kMost}).count()), 0);
  EXPECT_EQ((View<float, 2>(nullptr, {kMost, kMost}).count()), kMost);
}

TEST(Extent, AsManyElementsAsFitAreAccepted) {
  float any = 0.0F;
  check_view("f", "x", View<float, 2>(&any, {int64_t{1} << 24, int64_t{1} << 24}, {0, 0}));
  check_view("f", "x", View<float, 2>(&any, {3, int64_t{1} << 40}, {0, -128}));
  check_view("f", "x", View<float, 2>(nullptr, {0, 5}, {kMost, 1}));
}

TEST(Extent, SizesAboveTheMostElementsAreRefused) {
  const auto refused = [](const Shape<3>& shape, const std::string& text) {
    const View<const float, 3> view(nullptr, shape, {0, 0, 0});
    expect_error("f", [&] { check_extent("f", "x", view); }, {"x has", text});
  };
  refused({int64_t{1} << 40, int64_t{1} << 30, 1}, "[1099511627776, 1073741824, 1]: too many elements");
  refused({kMost, kMost, kMost}, "too many elements");
  refused({int64_t{1} << 62, 0, 4}, "[4611686018427387904, 0, 4]: too many elements");
  refused({0, kMost, 2}, "too many elements");
  refused({2, -1, 2}, "a negative size: [2, -1, 2]");
  refused({kMost, kLeast, 0}, "a negative size");
}

TEST(Extent, StridesThatLeadTooFarAreRefused) {
  float any = 0.0F;
  for (const int64_t stride : {kMost, kLeast, kMost / 2, -(int64_t{1} << 50)}) {
    expect_error("f",
                 [&] {
                   check_extent("f", "x", View<float, 2>(&any, {3, 2}, {stride, 1}));
                 },
                 {"x of shape [3, 2]", "lead"});
  }
}

TEST(Extent, TensorsThatNoMemoryHoldsAreRefused) {
  const std::vector<std::vector<int64_t>> shapes{{kMost},
                                                 {int64_t{1} << 40, int64_t{1} << 30},
                                                 {0, kMost},
                                                 {kMost, 0},
                                                 {int64_t{1} << 32, int64_t{1} << 32, 1, 0}};
  for (const std::vector<int64_t>& shape : shapes) {
    expect_error("Tensor", [&] { Tensor tensor(shape); }, {to_text(shape)});
  }
}

}  // namespace
}  // namespace heed::test
