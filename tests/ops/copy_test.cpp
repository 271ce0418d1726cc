// Copies between strided views, element by element.
#include "heed/ops/copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/strided_tensor.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

void expect_copied(const View<const float, 6>& from, const StridedTensor<6>& to, bool added) {
  to.expect_guards();
  for_each_index<6>(from.shape(), [&](const Shape<6>& index) {
    const float value = element(from, index);
    ASSERT_EQ(element(to.view(), index), added ? static_cast<float>(to.before(index)) + value : value);
  });
}

TEST(Copy, EveryElementArrivesForAnyStrides) {
  on_every_isa([] {
    for (const Shape<6>& shape : {Shape<6>{1, 1, 1, 1, 1, 1},
                                  {2, 3, 2, 2, 3, 5},
                                  {1, 2, 1, 3, 1, 70},
                                  {1, 1, 3, 70, 1, 67},
                                  {1, 1, 1, 1, 33, 16},
                                  {1, 1, 2, 0, 3, 4}}) {
      for (const Spread from_spread : kSpreads) {
        const StridedTensor<6> from(shape, from_spread, 1);
        for (const Spread to_spread : kSpreads) {
          for (const bool add : {false, true}) {
            StridedTensor<6> to(shape, to_spread, 2);
            copy(from.view(), to.view(), add);
            expect_copied(from.view(), to, add);
          }
        }
      }
    }
  });
}

TEST(Copy, EveryPermutationOfFourDimensions) {
  on_every_isa([] {
    std::array<int, 4> order{0, 1, 2, 3};
    const StridedTensor<6> from({1, 1, 3, 20, 5, 18}, Spread::contiguous, 1);
    do {
      const View<const float, 6> permuted =
          from.view().permuted({0, 1, order[0] + 2, order[1] + 2, order[2] + 2, order[3] + 2});
      for (const bool add : {false, true}) {
        StridedTensor<6> to(permuted.shape(), Spread::contiguous, 2);
        copy(permuted, to.view(), add);
        expect_copied(permuted, to, add);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  });
}

TEST(Copy, AStrideOfZeroRepeats) {
  const StridedTensor<1> row({21});
  const View<const float, 6> from(row.view().data(), {1, 1, 2, 3, 4, 21}, {0, 0, 0, 0, 0, 1});
  StridedTensor<6> to(from.shape());
  copy(from, to.view());
  expect_copied(from, to, false);
}

TEST(Copy, SameBitsForAnyNumberOfThreads) {
  const StridedTensor<6> from({1, 1, 3, 200, 2, 130});
  const View<const float, 6> permuted = from.view().permuted({0, 1, 2, 5, 4, 3});
  for (const int count : {1, 3}) {
    const Threads threads(count);
    StridedTensor<6> to(permuted.shape(), Spread::contiguous, 2);
    copy(permuted, to.view(), true);
    expect_copied(permuted, to, true);
  }
}

TEST(Copy, RefusesOtherShapesAndSharedMemory) {
  StridedTensor<6> a({1, 1, 1, 2, 3, 4});
  StridedTensor<6> b({1, 1, 1, 2, 4, 3});
  expect_error("copy", [&] { copy(a.view(), b.view()); }, {"[1, 1, 1, 2, 3, 4]", "[1, 1, 1, 2, 4, 3]"});
  expect_error("copy", [&] { copy(a.view().slice(4, 0, 2), a.view().slice(4, 1, 2)); }, {"shares memory"});
  expect_error("copy",
               [&] {
                 copy(a.view(), {b.view().data(), a.view().shape(), {0, 0, 0, 0, 4, 1}});
               },
               {"stride of 0"});
}

}  // namespace
}  // namespace heed::test
