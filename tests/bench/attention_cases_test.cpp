#include "bench/attention_cases.h"

#include <gtest/gtest.h>

#include <set>

#include "heed/core/error.h"

namespace heed::bench {
namespace {

std::set<std::string> names_of(const std::vector<AttentionCase>& cases) {
  std::set<std::string> names;
  for (const AttentionCase& each : cases) names.insert(each.label.name);
  return names;
}

TEST(AttentionCases, HaveNamesOfTheirOwn) { EXPECT_EQ(names_of(attention_cases()).size(), attention_cases().size()); }

TEST(AttentionCases, AreComparedWithCasesThatExist) {
  const std::set<std::string> names = names_of(attention_cases());
  for (const AttentionCase& each : attention_cases()) {
    EXPECT_TRUE(each.base.empty() || names.contains(each.base)) << each.label.name << " beside " << each.base;
  }
}

TEST(AttentionCases, HoldTheTableOfTargets) {
  const std::set<std::string> names = names_of(attention_cases());
  for (const char* mask : {"dense", "causal"}) {
    for (const char* shape : {"forward-d64-t128-", "forward-d64-t512-", "forward-d64-t2048-", "forward-d64-t8192-",
                              "forward-d128-t512-", "forward-d128-t2048-", "backward-d64-t512-", "backward-d64-t2048-",
                              "backward-d128-t512-", "backward-d128-t2048-", "both-b12-h4-d32-t64-"}) {
      EXPECT_TRUE(names.contains(std::string(shape) + mask)) << shape << mask;
    }
  }
  for (const char* name : {"forward-d64-t8192-window512", "forward-d64-t512-dense-bthd", "forward-d64-t2048-dense-qkv",
                           "backward-d64-t2048-causal-threads", "length-h1-d64-t32768", "memory-d64-t32768-dense",
                           "layer-forward-d64-t512-causal", "layer-both-d64-t512-causal",
                           "forward-d64-t2048-causal-alibi", "backward-d64-t2048-causal-table",
                           "forward-d64-t2048-dense-bias", "insight-d64-q4-t32768", "both-d64-t2048-causal-dropout"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

AttentionSizes small_sizes(const std::string& mask) {
  AttentionSizes sizes;
  sizes.mask = mask;
  sizes.window = mask == "window" ? 3 : 0;
  sizes.batch = 2;
  sizes.heads = 3;
  sizes.dim = 5;
  sizes.t_q = sizes.t_k = 7;
  return sizes;
}

TEST(AttentionFlops, AreFourTimesTheWidthForEachVisiblePairAndHead) {
  for (const char* mask : {"dense", "causal", "window"}) {
    const AttentionSizes sizes = small_sizes(mask);
    const MaskSizes mask_sizes{sizes.batch, sizes.heads, sizes.t_q, sizes.t_k};
    int64_t pairs = 0;
    for (int64_t q = 0; q < sizes.t_q; ++q) {
      for (int64_t k = 0; k < sizes.t_k; ++k) pairs += mask_of(sizes).visible(mask_sizes, 0, 0, q, k) ? 1 : 0;
    }
    EXPECT_EQ(attention_flops("forward", sizes), 4.0 * 5 * 2 * 3 * static_cast<double>(pairs)) << mask;
  }
}

TEST(AttentionFlops, OfTheMasksAreTheirClosedForms) {
  const double each = 4.0 * 5 * 2 * 3;
  EXPECT_EQ(attention_flops("forward", small_sizes("dense")), each * 7 * 7);
  EXPECT_EQ(attention_flops("forward", small_sizes("causal")), each * 7 * 8 / 2);
  EXPECT_EQ(attention_flops("forward", small_sizes("window")), each * (1 + 2 + 5 * 3));
}

TEST(AttentionFlops, OfBackwardAreTwoAndAHalfTimesForwardAndOfBothThreeAndAHalf) {
  const AttentionSizes sizes = small_sizes("causal");
  const double forward = attention_flops("forward", sizes);
  EXPECT_EQ(attention_flops("backward", sizes), 2.5 * forward);
  EXPECT_EQ(attention_flops("both", sizes), 3.5 * forward);
  EXPECT_EQ(attention_flops("insight", sizes), forward);
  EXPECT_THROW(attention_flops("sideways", sizes), Error);
}

// q, k, v and y are [14, 15] each (2 items of 7 tokens, 3 heads of 5), products over a model width of 11.
TEST(AttentionFlops, OfALayerAddItsFourProjections) {
  AttentionSizes sizes = small_sizes("causal");
  sizes.kv_heads = 3;
  const double attention = attention_flops("forward", sizes);
  const double projections = 4 * 2.0 * 14 * 15 * 11;
  sizes.width = 11;
  EXPECT_EQ(attention_flops("forward", sizes), attention + projections);
  EXPECT_EQ(attention_flops("backward", sizes), 2.5 * attention + 2 * projections);
  EXPECT_EQ(attention_flops("both", sizes), 3.5 * attention + 3 * projections);
}

TEST(Selection, TakesAllButWhatHasToBeNamed) {
  const auto all = select(attention_cases(), {});
  EXPECT_FALSE(names_of(all).contains("memory-d64-t32768-dense"));
  EXPECT_TRUE(names_of(all).contains("forward-d64-t8192-dense"));
}

TEST(Selection, TakesNamesAndGroups) {
  EXPECT_EQ(select(attention_cases(), {{"memory"}, "", false}).size(), 2U);
  EXPECT_EQ(names_of(select(attention_cases(), {{"forward-d64-t512-dense"}, "", false})),
            (std::set<std::string>{"forward-d64-t512-dense"}));
  EXPECT_EQ(select(attention_cases(), {{"window", "forward-d64-t512-dense"}, "", false}).size(), 2U);
}

TEST(Selection, TakesPartsOfNamesInsideGroups) {
  for (const AttentionCase& each : select(attention_cases(), {{"backward"}, "causal", false})) {
    EXPECT_EQ(each.kind, "backward");
    EXPECT_EQ(each.sizes.mask, "causal");
  }
  EXPECT_EQ(select(attention_cases(), {{"backward"}, "causal", false}).size(), 4U);
  EXPECT_TRUE(select(attention_cases(), {{}, "no such row", false}).empty());
}

TEST(Selection, QuickLeavesOutWhatTakesLongUnlessItWasAskedFor) {
  for (const AttentionCase& each : select(attention_cases(), {{}, "", true})) EXPECT_LT(each.sizes.t_k, 8192);
  EXPECT_EQ(select(attention_cases(), {{"memory"}, "", true}).size(), 1U);
  EXPECT_EQ(select(attention_cases(), {{"forward-d64-t8192-dense"}, "", true}).size(), 1U);
  EXPECT_FALSE(select(attention_cases(), {{}, "t8192", true}).empty());
}

// 7 repetitions and 2 calls before them, of a case and of what it is compared with.
TEST(Selection, QuickTakesLessThanAMinute) {
  double flops = 0;
  for (const AttentionCase& each : select(attention_cases(), {{}, "", true})) {
    flops += attention_flops(each.kind, each.sizes);
    for (const AttentionCase& base : select(attention_cases(), {{each.base}, "", false})) {
      flops += attention_flops(base.kind, base.sizes);
    }
  }
  EXPECT_LT(9 * flops / 25e9, 60);
  EXPECT_GT(9 * flops / 25e9, 20);
}

TEST(Selection, QuickHasRowsOfEveryKind) {
  std::set<std::string> kinds, groups;
  for (const AttentionCase& each : select(attention_cases(), {{}, "", true})) {
    kinds.insert(each.kind);
    groups.insert(each.label.group);
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"forward", "backward", "both"}));
  for (const char* group : {"forward", "backward", "both", "gqa", "layout", "threads", "layer", "options"}) {
    EXPECT_TRUE(groups.contains(group)) << group;
  }
}

}  // namespace
}  // namespace heed::bench
