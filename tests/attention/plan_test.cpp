// The plan tells what a call will do: exact counts, the same as by looking at every pair.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "heed/attention/query_blocks.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr AttentionSizes kSizes{.batch = 2, .t_q = 600, .t_k = 600, .heads = 4, .kv_heads = 2, .d_k = 8, .d_v = 5};

AttentionPlan plan_of(const AttentionCase& c) { return attention_plan(c.inputs(), c.options); }

struct Counts {
  int64_t pairs = 0;
  int64_t pieces = 0;
  int64_t skipped = 0;
};

// By visible() alone: a block of queries visits the pieces from the first to the last one in which it sees a key.
Counts count_by_pairs(const AttentionCase& c) {
  const MaskSizes sizes{c.sizes.batch, c.sizes.heads, c.sizes.t_q, c.sizes.t_k};
  const Mask& mask = c.options.mask;
  Problem problem;
  problem.sizes = sizes;
  problem.d_k = c.sizes.d_k;
  problem.d_v = c.sizes.d_v;
  Counts counts;
  for_each_query_block(problem, mask, [&](const QueryBlock& block) {
    const Segment& at = block.segment;
    const int64_t all = (at.k_end - at.k_begin + kPieceKeys - 1) / kPieceKeys;
    int64_t begin = all;
    int64_t end = 0;
    for (int64_t q = block.q_begin; q < block.q_end; ++q) {
      for (int64_t k = at.k_begin; k < at.k_end; ++k) {
        if (!mask.visible(sizes, block.b, block.head, q, k)) continue;
        ++counts.pairs;
        begin = std::min(begin, (k - at.k_begin) / kPieceKeys);
        end = std::max(end, (k - at.k_begin) / kPieceKeys + 1);
      }
    }
    const int64_t visited = std::max<int64_t>(end - begin, 0);
    counts.pieces += visited;
    counts.skipped += all - visited;
  });
  return counts;
}

TEST(Plan, CountsVisiblePairsAndPiecesExactly) {
  const Mask masks[] = {Mask(),
                        Mask::causal(),
                        Mask::window(100, 0),
                        Mask::window(20, 200),
                        Mask::lengths({600, 130}),
                        Mask::lengths({0, 256}),
                        Mask::documents({0, 100, 450}),
                        Mask::causal() & Mask::lengths({600, 130}) & Mask::documents({0, 100, 450})};
  for (const Mask& mask : masks) {
    SCOPED_TRACE(mask.description());
    AttentionCase c(kSizes, Layout::bthd, 1);
    c.options.mask = mask;
    const AttentionPlan plan = plan_of(c);
    const Counts expected = count_by_pairs(c);
    EXPECT_EQ(plan.visible_pairs, expected.pairs);
    EXPECT_EQ(plan.pieces, expected.pieces);
    EXPECT_EQ(plan.pieces_skipped, expected.skipped);
    EXPECT_EQ(plan.piece_keys, kPieceKeys);
    EXPECT_EQ(plan.mask, mask.description());
  }
}

TEST(Plan, CountsTheVisiblePairsOfDenseMasks) {
  const auto bits = std::make_unique<bool[]>(600 * 600);
  for (size_t i = 0; i < 600 * 600; ++i) bits[i] = i % 7 == 0;
  AttentionCase c(kSizes, Layout::bthd, 1);
  for (const Mask& mask : {Mask::keep(View<const bool, 2>(bits.get(), {600, 600})),
                           Mask::causal() & Mask::block(View<const bool, 2>(bits.get(), {600, 600}))}) {
    c.options.mask = mask;
    EXPECT_EQ(plan_of(c).visible_pairs, count_by_pairs(c).pairs);
  }
}

TEST(Plan, ACausalMaskSkipsPiecesThatNoMaskVisits) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  const AttentionPlan dense = plan_of(c);
  c.options.mask = Mask::causal();
  const AttentionPlan causal = plan_of(c);
  EXPECT_EQ(dense.pieces_skipped, 0);
  EXPECT_GT(causal.pieces_skipped, 0);
  EXPECT_EQ(causal.pieces + causal.pieces_skipped, dense.pieces);
  EXPECT_EQ(dense.visible_pairs, int64_t{2} * 4 * 600 * 600);
  EXPECT_EQ(causal.visible_pairs, int64_t{2} * 4 * 600 * 601 / 2);
}

TEST(Plan, CountsUsefulFlopsAndTheBytesOfInputsAndOutput) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  c.options.mask = Mask::causal();
  const AttentionPlan plan = plan_of(c);
  EXPECT_EQ(plan.flops_forward, plan.visible_pairs * 2 * (8 + 5));
  EXPECT_EQ(plan.flops_backward, plan.visible_pairs * 2 * (3 * 8 + 2 * 5));
  EXPECT_EQ(plan.bytes, int64_t{4} * 2 * 600 * (4 * 8 + 2 * 8 + 2 * 5 + 4 * 5));
}

TEST(Plan, WorkspaceBytesAreWhatAForwardCallTakes) {
  const int before = threads();
  for (const int count : {1, 2}) {
    set_threads(count);
    on_every_isa([] {
      AttentionCase c(kSizes, Layout::bthd, 1);
      Arena arena;
      c.options.arena = &arena;
      const AttentionPlan plan = plan_of(c);
      c.forward();
      EXPECT_EQ(plan.workspace_bytes, static_cast<int64_t>(arena.capacity_bytes()));
    });
  }
  set_threads(before);
}

TEST(Plan, NamesTheInstructionSetInUse) {
  on_every_isa([] {
    const AttentionCase c(kSizes, Layout::bthd, 1);
    EXPECT_EQ(plan_of(c).isa, isa_name(isa()));
  });
}

TEST(Plan, OfNothingIsNothing) {
  const AttentionCase c({.batch = 0, .t_q = 5, .t_k = 5, .heads = 1, .kv_heads = 1, .d_k = 1, .d_v = 1}, Layout::bthd,
                        1);
  const AttentionPlan plan = plan_of(c);
  EXPECT_EQ(plan.visible_pairs, 0);
  EXPECT_EQ(plan.pieces + plan.pieces_skipped, 0);
  EXPECT_EQ(plan.flops_forward, 0);
  EXPECT_EQ(plan.bytes, 0);
}

TEST(Plan, TextHasEveryFigure) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  c.options.mask = Mask::causal() & Mask::lengths({600, 130});
  const AttentionPlan plan = plan_of(c);
  const std::string text = plan.to_text();
  const std::string figures[] = {plan.isa,
                                 "causal & lengths",
                                 std::to_string(plan.visible_pairs),
                                 std::to_string(plan.pieces) + " of " + std::to_string(plan.piece_keys) + " keys",
                                 std::to_string(plan.pieces_skipped) + " skipped",
                                 std::to_string(plan.flops_forward) + " forward",
                                 std::to_string(plan.flops_backward) + " backward",
                                 std::to_string(plan.bytes),
                                 std::to_string(plan.workspace_bytes)};
  for (const std::string& figure : figures)
    EXPECT_NE(text.find(figure), std::string::npos) << figure << " in\n" << text;
}

}  // namespace
}  // namespace heed::test
