// The mask algebra: what each part shows, and that everything derived from a mask agrees with visible().
#include "heed/attention/mask.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heed/core/error.h"
#include "tests/support/draw.h"

namespace heed::test {
namespace {

// Rows of item b and head h, '1' where visible.
std::vector<std::string> shown(const Mask& mask, const MaskSizes& sizes, int64_t b = 0, int64_t h = 0) {
  mask.check_fits("shown", sizes);
  std::vector<std::string> rows;
  for (int64_t q = 0; q < sizes.t_q; ++q) {
    std::string row;
    for (int64_t k = 0; k < sizes.t_k; ++k) row += mask.visible(sizes, b, h, q, k) ? '1' : '0';
    rows.push_back(row);
  }
  return rows;
}

using Rows = std::vector<std::string>;
constexpr MaskSizes kSquare{1, 1, 4, 4};
constexpr MaskSizes kWide{2, 1, 2, 5};  // fewer queries than keys
constexpr MaskSizes kTall{1, 1, 5, 2};  // more queries than keys

TEST(MaskRules, NoMaskShowsEverything) {
  EXPECT_EQ(shown(Mask(), {1, 1, 2, 3}), (Rows{"111", "111"}));
  EXPECT_TRUE(Mask().is_none());
  EXPECT_FALSE(Mask::causal().is_none());
}

TEST(MaskRules, CausalShowsKeysUpToTheQuerysPosition) {
  EXPECT_EQ(shown(Mask::causal(), kSquare), (Rows{"1000", "1100", "1110", "1111"}));
}

TEST(MaskRules, CausalTopLeftHasOffset0) {
  EXPECT_EQ(shown(Mask::causal(QueryPositions::top_left()), kWide), (Rows{"10000", "11000"}));
  EXPECT_EQ(shown(Mask::causal(QueryPositions::top_left()), kTall), (Rows{"10", "11", "11", "11", "11"}));
}

TEST(MaskRules, CausalBottomRightHasOffsetTkMinusTq) {
  EXPECT_EQ(shown(Mask::causal(QueryPositions::bottom_right()), kWide), (Rows{"11110", "11111"}));
  EXPECT_EQ(shown(Mask::causal(QueryPositions::bottom_right()), kTall), (Rows{"00", "00", "00", "10", "11"}));
}

TEST(MaskRules, CausalTakesOneOffsetForAllItems) {
  EXPECT_EQ(shown(Mask::causal(QueryPositions::from(1)), kWide, 0), (Rows{"11000", "11100"}));
  EXPECT_EQ(shown(Mask::causal(QueryPositions::from(1)), kWide, 1), (Rows{"11000", "11100"}));
  EXPECT_EQ(shown(Mask::causal(QueryPositions::from(-1)), kWide), (Rows{"00000", "10000"}));
}

TEST(MaskRules, CausalTakesOneOffsetAnItem) {
  const Mask mask = Mask::causal(QueryPositions::from(std::vector<int64_t>{0, 3}));
  EXPECT_EQ(shown(mask, kWide, 0), (Rows{"10000", "11000"}));
  EXPECT_EQ(shown(mask, kWide, 1), (Rows{"11110", "11111"}));
}

TEST(MaskRules, CausalAndDocumentsAndWindowWithTqOtherThanTkNeedTheQueriesPositions) {
  for (const Mask& mask : {Mask::causal(), Mask::window(1, 1), Mask::documents({0, 1})}) {
    EXPECT_THROW(mask.check_fits("f", kWide), Error);
    EXPECT_NO_THROW(mask.check_fits("f", kSquare));
  }
}

TEST(MaskRules, WindowShowsLeftAndRightOfTheQuerysPosition) {
  EXPECT_EQ(shown(Mask::window(1, 0), kSquare), (Rows{"1000", "1100", "0110", "0011"}));
  EXPECT_EQ(shown(Mask::window(0, 2), kSquare), (Rows{"1110", "0111", "0011", "0001"}));
  EXPECT_EQ(shown(Mask::window(0, 1, QueryPositions::bottom_right()), kWide), (Rows{"00011", "00001"}));
  EXPECT_EQ(shown(Mask::window(1, 0, QueryPositions::from(4)), kWide), (Rows{"00011", "00001"}));
}

TEST(MaskRules, WindowOfUnlimitedSidesLeavesThemOpen) {
  EXPECT_EQ(shown(Mask::window(Mask::kUnlimited, 0), kSquare), shown(Mask::causal(), kSquare));
  EXPECT_EQ(shown(Mask::window(0, Mask::kUnlimited), kSquare), (Rows{"1111", "0111", "0011", "0001"}));
  EXPECT_EQ(shown(Mask::window(Mask::kUnlimited, Mask::kUnlimited), kSquare), shown(Mask(), kSquare));
  EXPECT_EQ(shown(Mask::window(Mask::kUnlimited - 1, Mask::kUnlimited - 1), kSquare), shown(Mask(), kSquare));
}

TEST(MaskRules, OffsetsFarFromTheKeysShowNothingOrEverything) {
  const int64_t far = int64_t{1} << 40;
  EXPECT_EQ(shown(Mask::causal(QueryPositions::from(far)), kWide), (Rows{"11111", "11111"}));
  EXPECT_EQ(shown(Mask::causal(QueryPositions::from(-far)), kWide), (Rows{"00000", "00000"}));
  EXPECT_EQ(shown(Mask::window(9, 9, QueryPositions::from(far)), kWide), (Rows{"00000", "00000"}));
  EXPECT_EQ(shown(Mask::window(Mask::kUnlimited - 1, 9, QueryPositions::from(-far)), kWide), (Rows{"00000", "00000"}));
  EXPECT_THROW(Mask::causal(QueryPositions::from(far + 1)).check_fits("f", kWide), Error);
  EXPECT_THROW(Mask::causal(QueryPositions::from(-far - 1)).check_fits("f", kWide), Error);
}

TEST(MaskRules, LengthsShowTheFirstKeysOfEachItem) {
  EXPECT_EQ(shown(Mask::lengths({5, 2}), kWide, 0), (Rows{"11111", "11111"}));
  EXPECT_EQ(shown(Mask::lengths({5, 2}), kWide, 1), (Rows{"11000", "11000"}));
  EXPECT_EQ(shown(Mask::lengths({5, 0}), kWide, 1), (Rows{"00000", "00000"}));
}

TEST(MaskRules, DocumentsNeverSeeEachOther) {
  EXPECT_EQ(shown(Mask::documents({0, 1, 3}), kSquare), (Rows{"1000", "0110", "0110", "0001"}));
}

TEST(MaskRules, DocumentsMayDifferFromItemToItem) {
  const Mask mask = Mask::documents_by_item(std::vector<std::vector<int64_t>>{{0}, {0, 2}});
  const MaskSizes sizes{2, 1, 3, 3};
  EXPECT_EQ(shown(mask, sizes, 0), (Rows{"111", "111", "111"}));
  EXPECT_EQ(shown(mask, sizes, 1), (Rows{"110", "110", "001"}));
}

TEST(MaskRules, AQueryBelongsToTheDocumentOfItsPosition) {
  EXPECT_EQ(shown(Mask::documents({0, 4}, QueryPositions::bottom_right()), kWide), (Rows{"11110", "00001"}));
  // Before the first key it belongs to the first, past the last key to the last.
  EXPECT_EQ(shown(Mask::documents({0, 1}, QueryPositions::from(-2)), {1, 1, 5, 2}),
            (Rows{"10", "10", "10", "01", "01"}));
}

TEST(MaskRules, KeepTrueIsVisibleAndBlockTrueIsHidden) {
  const bool bits[] = {true, false, true, false, false, true};
  const View<const bool, 2> view(bits, {2, 3});
  EXPECT_EQ(shown(Mask::keep(view), {1, 1, 2, 3}), (Rows{"101", "001"}));
  EXPECT_EQ(shown(Mask::block(view), {1, 1, 2, 3}), (Rows{"010", "110"}));
}

TEST(MaskRules, ADenseMaskOfTqTkIsTheSameForEveryItemAndHead) {
  const bool bits[] = {true, false};
  const Mask mask = Mask::keep(View<const bool, 2>(bits, {1, 2}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 2; ++h) EXPECT_EQ(shown(mask, {2, 2, 1, 2}, b, h), (Rows{"10"}));
  }
}

TEST(MaskRules, ADenseMaskOfBTqTkHasAPartForEachItem) {
  const bool bits[] = {true, false, false, true};
  const Mask mask = Mask::keep(View<const bool, 3>(bits, {2, 1, 2}));
  EXPECT_EQ(shown(mask, {2, 3, 1, 2}, 0, 2), (Rows{"10"}));
  EXPECT_EQ(shown(mask, {2, 3, 1, 2}, 1, 2), (Rows{"01"}));
}

TEST(MaskRules, ADenseMaskOfRank4BroadcastsItemsAndHeads) {
  const bool bits[] = {true, false, false, true};
  const MaskSizes sizes{2, 2, 1, 2};
  const Mask of_heads = Mask::block(View<const bool, 4>(bits, {1, 2, 1, 2}));
  const Mask of_items = Mask::block(View<const bool, 4>(bits, {2, 1, 1, 2}));
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(shown(of_heads, sizes, i, 0), (Rows{"01"}));
    EXPECT_EQ(shown(of_heads, sizes, i, 1), (Rows{"10"}));
    EXPECT_EQ(shown(of_items, sizes, 0, i), (Rows{"01"}));
    EXPECT_EQ(shown(of_items, sizes, 1, i), (Rows{"10"}));
  }
}

TEST(MaskRules, ADenseMaskMayHaveAnyStrides) {
  const bool bits[] = {true, false, true, true, false, false};
  const View<const bool, 2> by_keys(bits, {3, 2});
  EXPECT_EQ(shown(Mask::keep(by_keys.transposed()), {1, 1, 2, 3}), (Rows{"110", "010"}));
  EXPECT_EQ(shown(Mask::keep(View<const bool, 2>(bits, {3, 2}, {1, 0})), {1, 1, 3, 2}), (Rows{"11", "00", "11"}));
}

TEST(MaskRules, AndShowsWhatBothShow) {
  EXPECT_EQ(shown(Mask::causal() & Mask::window(1, 1) & Mask::lengths({3}), kSquare),
            (Rows{"1000", "1100", "0110", "0010"}));
  EXPECT_EQ(shown(Mask() & Mask::causal(), kSquare), shown(Mask::causal() & Mask(), kSquare));
  EXPECT_EQ(shown(Mask::lengths({3}) & Mask::lengths({2}), {1, 1, 1, 4}), (Rows{"1100"}));
}

TEST(MaskRules, AndRefusesDocumentsOnBothSides) {
  EXPECT_THROW(Mask::documents({0, 1}) & Mask::documents({0, 2}), Error);
}

TEST(MaskRules, DescriptionsNameThePartsInOrder) {
  const bool bits[] = {true};
  const View<const bool, 2> dense(bits, {1, 1});
  EXPECT_EQ(Mask().description(), "none");
  EXPECT_EQ(Mask::causal().description(), "causal");
  EXPECT_EQ((Mask::causal() & Mask::lengths({7, 5})).description(), "causal & lengths");
  EXPECT_EQ(Mask::window(3, Mask::kUnlimited).description(), "window(3, all)");
  EXPECT_EQ((Mask::keep(dense) & Mask::documents({0, 1}) & Mask::block(dense)).description(),
            "documents & keep & block");
}

// A random mask and, built beside it, what each of its parts means.
class RandomMask {
 public:
  explicit RandomMask(uint64_t seed) : draw_(seed) {
    sizes = {draw_.between(1, 3), draw_.between(1, 3), draw_.below(24), draw_.below(24)};
    if (draw_.chance(3)) sizes.t_q = sizes.t_k;
    if (draw_.chance(2)) add_band();
    if (draw_.chance(3)) add_band();
    if (draw_.chance(3)) add_lengths();
    if (draw_.chance(2)) add_documents();
    if (draw_.chance(3)) add_dense();
  }

  MaskSizes sizes;
  Mask mask;

  bool expected(int64_t b, int64_t h, int64_t q, int64_t k) const {
    for (const auto& part : parts_) {
      if (!part(b, h, q, k)) return false;
    }
    return true;
  }

 private:
  using Offset = std::function<int64_t(int64_t b)>;

  QueryPositions positions(Offset& offset) {
    const int64_t last = sizes.t_k - sizes.t_q;
    switch (draw_.below(sizes.t_q == sizes.t_k ? 5 : 4)) {
      case 0:
        offset = [](int64_t) { return int64_t{0}; };
        return QueryPositions::top_left();
      case 1:
        offset = [last](int64_t) { return last; };
        return QueryPositions::bottom_right();
      case 2: {
        const int64_t one = draw_.between(-20, 20);
        offset = [one](int64_t) { return one; };
        return QueryPositions::from(one);
      }
      case 3: {
        std::vector<int64_t> each;
        for (int64_t b = 0; b < sizes.batch; ++b) each.push_back(draw_.between(-20, 20));
        offset = [each](int64_t b) { return each[static_cast<size_t>(b)]; };
        return QueryPositions::from(each);
      }
      default:
        offset = [](int64_t) { return int64_t{0}; };
        return {};
    }
  }

  void add_band() {
    Offset offset;
    const QueryPositions at = positions(offset);
    if (draw_.chance(2)) {
      mask = mask & Mask::causal(at);
      parts_.push_back([=](int64_t b, int64_t, int64_t q, int64_t k) { return k <= q + offset(b); });
      return;
    }
    const int64_t left = draw_.chance(3) ? Mask::kUnlimited : draw_.below(10);
    const int64_t right = draw_.chance(3) ? Mask::kUnlimited : draw_.below(10);
    mask = mask & Mask::window(left, right, at);
    parts_.push_back([=](int64_t b, int64_t, int64_t q, int64_t k) {
      const int64_t distance = k - (q + offset(b));
      return -distance <= left && distance <= right;
    });
  }

  void add_lengths() {
    std::vector<int64_t> lengths;
    for (int64_t b = 0; b < sizes.batch; ++b) lengths.push_back(draw_.between(0, sizes.t_k));
    mask = mask & Mask::lengths(lengths);
    parts_.push_back([=](int64_t b, int64_t, int64_t, int64_t k) { return k < lengths[static_cast<size_t>(b)]; });
  }

  void add_documents() {
    std::vector<std::vector<int64_t>> starts(draw_.chance(2) ? 1 : static_cast<size_t>(sizes.batch), {0});
    for (std::vector<int64_t>& list : starts) {
      for (int64_t k = 1; k < sizes.t_k; ++k) {
        if (draw_.chance(5)) list.push_back(k);
      }
    }
    Offset offset;
    mask = mask & Mask::documents_by_item(starts, positions(offset));
    parts_.push_back([=](int64_t b, int64_t, int64_t q, int64_t k) {
      const std::vector<int64_t>& list = starts[starts.size() == 1 ? 0 : static_cast<size_t>(b)];
      const auto document = [&list](int64_t position) {
        int64_t n = 0;
        for (size_t i = 1; i < list.size(); ++i) n += list[i] <= position ? 1 : 0;
        return n;
      };
      return document(q + offset(b)) == document(k);
    });
  }

  void add_dense() {
    const Shape<4> shape{draw_.chance(2) ? 1 : sizes.batch, draw_.chance(2) ? 1 : sizes.heads, sizes.t_q, sizes.t_k};
    bits_ = std::make_unique<bool[]>(static_cast<size_t>(element_count(shape)) + 1);
    for (int64_t i = 0; i < element_count(shape); ++i) bits_[static_cast<size_t>(i)] = draw_.chance(2);
    const View<const bool, 4> view(bits_.get(), shape);
    const bool keep = draw_.chance(2);
    mask = mask & (keep ? Mask::keep(view) : Mask::block(view));
    parts_.push_back([=](int64_t b, int64_t h, int64_t q, int64_t k) {
      return view(shape[0] == 1 ? 0 : b, shape[1] == 1 ? 0 : h, q, k) == keep;
    });
  }

  Draw draw_;
  std::vector<std::function<bool(int64_t, int64_t, int64_t, int64_t)>> parts_;
  std::unique_ptr<bool[]> bits_;
};

template <class Body>
void for_random_masks(Body body) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    const RandomMask random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + random.mask.description());
    ASSERT_NO_THROW(random.mask.check_fits("test", random.sizes));
    body(random);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(MaskRules, VisibleIsTheAndOfTheDefinitionsAndVisiblePairsCountsIt) {
  for_random_masks([](const RandomMask& random) {
    const MaskSizes& sizes = random.sizes;
    int64_t pairs = 0;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t h = 0; h < sizes.heads; ++h) {
        for (int64_t q = 0; q < sizes.t_q; ++q) {
          for (int64_t k = 0; k < sizes.t_k; ++k) {
            const bool expected = random.expected(b, h, q, k);
            ASSERT_EQ(random.mask.visible(sizes, b, h, q, k), expected) << b << ' ' << h << ' ' << q << ' ' << k;
            pairs += expected ? 1 : 0;
          }
        }
      }
    }
    EXPECT_EQ(random.mask.visible_pairs(sizes), pairs);
  });
}

TEST(MaskRules, SegmentsPartitionQueriesAndKeysAndNobodySeesAnotherSegment) {
  for_random_masks([](const RandomMask& random) {
    const MaskSizes& sizes = random.sizes;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      int64_t q_end = 0;
      int64_t k_end = 0;
      for (int64_t n = 0; n < random.mask.segment_count(b); ++n) {
        const Segment at = random.mask.segment(sizes, b, n);
        ASSERT_EQ(at.q_begin, q_end);  // each begins where the one before it ended
        ASSERT_EQ(at.k_begin, k_end);
        ASSERT_GE(at.q_end, at.q_begin);
        ASSERT_GE(at.k_end, at.k_begin);
        q_end = at.q_end;
        k_end = at.k_end;
        for (int64_t q = at.q_begin; q < at.q_end; ++q) {
          for (int64_t k = 0; k < sizes.t_k; ++k) {
            const bool inside = k >= at.k_begin && k < at.k_end;
            ASSERT_TRUE(inside || !random.mask.visible(sizes, b, 0, q, k));
          }
        }
      }
      EXPECT_EQ(q_end, sizes.t_q);
      EXPECT_EQ(k_end, sizes.t_k);
    }
  });
}

TEST(MaskRules, BoundsOfTheKeyRangeNeverFallFromOneQueryToTheNext) {
  for_random_masks([](const RandomMask& random) {
    const MaskSizes& sizes = random.sizes;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      const KeyRangeRule rule = random.mask.key_range_rule(sizes, b);
      for (int64_t q = 0; q < sizes.t_q; ++q) {
        const KeyRange range = rule.at(q);
        ASSERT_GE(range.begin, 0);
        ASSERT_LE(range.end, sizes.t_k);
        if (q > 0) {
          ASSERT_GE(range.begin, rule.at(q - 1).begin);
          ASSERT_GE(range.end, rule.at(q - 1).end);
        }
      }
    }
  });
}

}  // namespace
}  // namespace heed::test
