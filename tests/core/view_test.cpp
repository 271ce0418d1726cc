#include "heed/core/view.h"

#include <gtest/gtest.h>

#include <numeric>
#include <type_traits>
#include <vector>

namespace heed {
namespace {

// 0, 1, 2, … as a contiguous [2, 3, 4].
class ViewTest : public testing::Test {
 protected:
  ViewTest() { std::iota(values_.begin(), values_.end(), 0.0F); }

  std::vector<float> values_ = std::vector<float>(24);
  View<float, 3> view_{values_.data(), {2, 3, 4}};
};

TEST_F(ViewTest, ContiguousIsRowMajor) {
  EXPECT_EQ(view_.strides(), (Shape<3>{12, 4, 1}));
  EXPECT_EQ(view_(1, 2, 3), 23.0F);
  EXPECT_EQ(view_(1, 0, 2), 14.0F);
  EXPECT_EQ(view_.count(), 24);
  EXPECT_EQ(view_.size(1), 3);
  EXPECT_EQ(view_.stride(0), 12);
}

TEST_F(ViewTest, DefaultIsEmpty) {
  const View<float, 2> nothing;
  EXPECT_EQ(nothing.data(), nullptr);
  EXPECT_EQ(nothing.count(), 0);
}

TEST_F(ViewTest, IndexGivesTheInnerView) {
  const View<float, 2> inner = view_[1];
  EXPECT_EQ(inner.shape(), (Shape<2>{3, 4}));
  EXPECT_EQ(inner(2, 1), view_(1, 2, 1));
  EXPECT_EQ(inner[2](1), view_(1, 2, 1));
}

TEST_F(ViewTest, SliceKeepsStrides) {
  const View<float, 3> part = view_.slice(2, 1, 2);
  EXPECT_EQ(part.shape(), (Shape<3>{2, 3, 2}));
  EXPECT_EQ(part.strides(), view_.strides());
  EXPECT_EQ(part(1, 2, 0), view_(1, 2, 1));
  EXPECT_EQ(part(1, 2, 1), view_(1, 2, 2));
}

TEST_F(ViewTest, PermutedTakesDimensionsInTheGivenOrder) {
  const View<float, 3> turned = view_.permuted({2, 0, 1});
  EXPECT_EQ(turned.shape(), (Shape<3>{4, 2, 3}));
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(turned(k, i, j), view_(i, j, k));
    }
  }
}

TEST_F(ViewTest, TransposedSwapsRowsAndColumns) {
  const View<float, 2> inner = view_[0];
  EXPECT_EQ(inner.transposed().shape(), (Shape<2>{4, 3}));
  EXPECT_EQ(inner.transposed()(3, 1), inner(1, 3));
}

TEST_F(ViewTest, StridesOfZeroRepeatAndNegativeOnesRunBackwards) {
  const View<float, 2> repeated(values_.data(), {5, 3}, {0, 1});
  EXPECT_EQ(repeated(4, 2), 2.0F);
  const View<float, 1> backwards(values_.data() + 23, {24}, {-1});
  EXPECT_EQ(backwards(0), 23.0F);
  EXPECT_EQ(backwards(23), 0.0F);
}

TEST_F(ViewTest, MutableConvertsToConstAndNotBack) {
  const View<const float, 3> reads = view_;
  EXPECT_EQ(reads(1, 1, 1), view_(1, 1, 1));
  EXPECT_EQ(reads.strides(), view_.strides());
  static_assert(std::is_convertible_v<View<float, 2>, View<const float, 2>>);
  static_assert(!std::is_convertible_v<View<const float, 2>, View<float, 2>>);
  static_assert(!std::is_convertible_v<View<double, 2>, View<const float, 2>>);
}

TEST_F(ViewTest, WritesReachTheMemory) {
  view_(1, 2, 3) = -1.0F;
  EXPECT_EQ(values_[23], -1.0F);
}

TEST(Shape, PrintsAsAList) {
  EXPECT_EQ(to_text(Shape<3>{2, 3, 4}), "[2, 3, 4]");
  EXPECT_EQ(to_text(std::vector<int64_t>{}), "[]");
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(element_count(Shape<2>{3, 4}), 12);
  EXPECT_EQ(element_count(Shape<2>{3, 0}), 0);
  EXPECT_EQ(element_count(std::vector<int64_t>{}), 1);
}

}  // namespace
}  // namespace heed
