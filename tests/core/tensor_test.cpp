#include "heed/core/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

namespace heed {
namespace {

TEST(Tensor, BeginsWithZerosOnACacheLine) {
  const Tensor tensor({3, 5});
  EXPECT_EQ(tensor.rank(), 2);
  EXPECT_EQ(tensor.count(), 15);
  EXPECT_TRUE(std::ranges::all_of(tensor.values(), [](float value) { return value == 0.0F; }));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.values().data()) % kAlignment, 0U);
}

TEST(Tensor, DefaultHoldsNothing) {
  const Tensor tensor;
  EXPECT_EQ(tensor.count(), 0);
  EXPECT_TRUE(tensor.values().empty());
}

TEST(Tensor, MayHaveSizesOfZero) {
  const Tensor tensor({2, 0, 3});
  EXPECT_EQ(tensor.count(), 0);
  EXPECT_EQ(tensor.view<3>().shape(), (Shape<3>{2, 0, 3}));
}

TEST(Tensor, OfRankZeroHoldsOneValue) { EXPECT_EQ(Tensor(std::vector<int64_t>{}).count(), 1); }

TEST(Tensor, CopyIsDeep) {
  Tensor first({2, 2});
  first.values()[3] = 7.0F;
  Tensor second = first;
  second.values()[3] = 8.0F;
  EXPECT_EQ(first.values()[3], 7.0F);
  first = second;
  second.values()[3] = 9.0F;
  EXPECT_EQ(first.values()[3], 8.0F);
  const Tensor copy_of_nothing = Tensor();
  EXPECT_EQ(Tensor(copy_of_nothing).count(), 0);
}

TEST(Tensor, AssignmentToItselfKeepsTheValues) {
  Tensor tensor({2});
  tensor.values()[1] = 5.0F;
  Tensor& same = tensor;
  tensor = same;
  EXPECT_EQ(tensor.values()[1], 5.0F);
}

TEST(Tensor, MoveTakesTheMemoryAndLeavesNothing) {
  Tensor first({4});
  first.values()[2] = 1.0F;
  const float* memory = first.values().data();
  const Tensor second = std::move(first);
  EXPECT_EQ(second.values().data(), memory);
  EXPECT_EQ(second.shape(), std::vector<int64_t>{4});
  EXPECT_EQ(first.count(), 0);  // NOLINT(bugprone-use-after-move): the promise under test
  EXPECT_TRUE(first.shape().empty());
}

TEST(Tensor, ViewIsRowMajor) {
  Tensor tensor({2, 3});
  tensor.view<2>()(1, 0) = 4.0F;
  EXPECT_EQ(tensor.values()[3], 4.0F);
  EXPECT_EQ(std::as_const(tensor).view<2>()(1, 0), 4.0F);
}

std::string error_of(auto&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tensor, ViewOfAnotherRankIsAnError) {
  Tensor tensor({2, 3});
  EXPECT_EQ(error_of([&] { tensor.view<3>(); }), "Tensor::view: asked for rank 3, but the shape is [2, 3]");
}

// Whether view<N>() of such a tensor compiles.
template <class TensorType>
constexpr bool kHasView = requires(TensorType&& tensor) {
  std::forward<TensorType>(tensor).template view<2>();
};
static_assert(kHasView<Tensor&> && kHasView<const Tensor&>);

TEST(Tensor, ATemporaryHasNoViewBecauseItWouldDangle) {
  EXPECT_FALSE(kHasView<Tensor>);
  EXPECT_FALSE(kHasView<Tensor&&>);
  EXPECT_FALSE(kHasView<const Tensor&&>);
  EXPECT_FALSE(kHasView<decltype(Tensor({2, 3}))>);
  EXPECT_FALSE(kHasView<TensorOf<bool>>);
}

// The promises of a regular value, for every element that there is.
template <class T>
void expect_regular(T value) {
  TensorOf<T> first({2, 3});
  for (const T zero : first.values()) EXPECT_EQ(zero, T{});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first.values().data()) % kAlignment, 0U);
  first.template view<2>()(1, 0) = value;
  TensorOf<T> second = first;
  first.values()[3] = T{};
  EXPECT_EQ(std::as_const(second).template view<2>()(1, 0), value);
  const T* memory = second.values().data();
  first = std::move(second);
  EXPECT_EQ(first.values().data(), memory);
  EXPECT_EQ(first.values()[3], value);
  EXPECT_EQ(TensorOf<T>().count(), 0);
}

TEST(Tensor, TokenIdsLabelsAndMasksAreRegularValuesToo) {
  expect_regular<int64_t>(int64_t{1} << 40);
  expect_regular<int32_t>(-7);
  expect_regular<bool>(true);
  expect_regular<float>(0.5F);
}

TEST(Tensor, RefusesNegativeSizes) {
  EXPECT_EQ(error_of([] { Tensor({2, -1}); }), "Tensor: the tensor has a negative size: [2, -1]");
}

TEST(Tensor, RefusesMoreElementsThanCanBeAddressed) {
  constexpr int64_t kLarge = int64_t{1} << 31;
  EXPECT_EQ(error_of([] {
              Tensor({kLarge, kLarge});
            }),
            "Tensor: the tensor has shape [2147483648, 2147483648]: too many elements, at most 2^48 (sizes of 0 count "
            "as 1); give smaller sizes");
  EXPECT_NE(error_of([] { Tensor({std::numeric_limits<int64_t>::max()}); }), "no error");
}

}  // namespace
}  // namespace heed
