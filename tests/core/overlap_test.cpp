#include "heed/core/overlap.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "heed/core/rng.h"

namespace heed {
namespace {

// By looking at every element.
template <int N>
bool share(const View<const float, N>& a, const View<const float, N>& b) {
  const auto elements = [](const View<const float, N>& view) {
    std::set<const float*> found;
    for (int64_t i = 0; i < view.count(); ++i) {
      const float* at = view.data();
      int64_t rest = i;
      for (int d = N - 1; d >= 0; --d) {
        at += rest % view.size(d) * view.stride(d);
        rest /= view.size(d);
      }
      found.insert(at);
    }
    return found;
  };
  const std::set<const float*> of_a = elements(a);
  for (const float* each : elements(b)) {
    if (of_a.contains(each)) return true;
  }
  return false;
}

TEST(Overlap, SideBySideInTheRowsOfAFusedProjectionIsApart) {
  const std::vector<float> memory(2 * 5 * 24);
  const View<const float, 4> all(memory.data(), {2, 5, 6, 4});  // 2 heads each of q, k and v
  const auto q = all.slice(2, 0, 2), k = all.slice(2, 2, 2), v = all.slice(2, 4, 2);
  EXPECT_FALSE(may_share_memory(q, k));
  EXPECT_FALSE(may_share_memory(v, q));
  EXPECT_TRUE(may_share_memory(q, q));
  EXPECT_TRUE(may_share_memory(all.slice(2, 1, 2), q));
  EXPECT_TRUE(may_share_memory(all.slice(2, 1, 2), k));
}

TEST(Overlap, OneAfterTheOtherInEveryItemIsApart) {
  const std::vector<float> memory(3 * 2 * 20);
  const View<const float, 3> all(memory.data(), {3, 10, 4});
  EXPECT_FALSE(may_share_memory(all.slice(1, 0, 5), all.slice(1, 5, 5)));
  EXPECT_FALSE(may_share_memory(all.slice(1, 5, 5), all.slice(1, 0, 5)));
  EXPECT_TRUE(may_share_memory(all.slice(1, 0, 6), all.slice(1, 5, 5)));
}

TEST(Overlap, NeighboursAndEmptyViewsAreApart) {
  const std::vector<float> memory(20);
  const View<const float, 1> all(memory.data(), {20});
  EXPECT_FALSE(may_share_memory(all.slice(0, 0, 10), all.slice(0, 10, 10)));
  EXPECT_TRUE(may_share_memory(all.slice(0, 0, 11), all.slice(0, 10, 10)));
  EXPECT_FALSE(may_share_memory(all, all.slice(0, 5, 0)));
  EXPECT_FALSE(may_share_memory(View<const float, 1>(), all));
}

// Strides of either sign: what shares an element is never missed.
TEST(Overlap, NoSharedElementIsMissed) {
  const std::vector<float> memory(4000);
  const Rng rng(1);
  uint64_t counter = 0;
  const auto draw = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(rng.bits(counter++) % static_cast<uint64_t>(most - least + 1));
  };
  int sharing = 0, apart = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto view = [&] {
      const Shape<3> shape{draw(1, 3), draw(1, 4), draw(1, 5)};
      return View<const float, 3>(memory.data() + draw(1990, 2010), shape, {draw(-30, 30), draw(-12, 12), draw(-3, 3)});
    };
    const auto a = view(), b = view();
    if (share(a, b)) {
      ++sharing;
      ASSERT_TRUE(may_share_memory(a, b)) << to_text(a.strides()) << " " << to_text(b.strides());
    } else if (!may_share_memory(a, b)) {
      ++apart;
    }
  }
  EXPECT_GT(sharing, 300);
  EXPECT_GT(apart, 300);
}

}  // namespace
}  // namespace heed
