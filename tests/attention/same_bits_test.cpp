// Same bits: for any thread count, batch mates, padding, packing, prefix, layout and mask that says the same. Sizes
// cross the bounds of pieces (128 keys), panels (48, 32, 16 and 8 queries), blocks (192) and tiles (96).
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_same(const AttentionResults& a, const AttentionResults& b) {
  EXPECT_TRUE(same_bits(a.out, b.out)) << "out";
  EXPECT_TRUE(same_bits(a.shift, b.shift)) << "shift";
  EXPECT_TRUE(same_bits(a.sum, b.sum)) << "sum";
  EXPECT_TRUE(same_bits(a.d_q, b.d_q)) << "d_q";
  EXPECT_TRUE(same_bits(a.d_k, b.d_k)) << "d_k";
  EXPECT_TRUE(same_bits(a.d_v, b.d_v)) << "d_v";
}

// Queries and keys of one item: [b], queries [q, q + queries), keys [k, k + keys).
struct Part {
  int64_t b = 0;
  int64_t q = 0;
  int64_t queries = 0;
  int64_t k = 0;
  int64_t keys = 0;
};

View<float, 4> part_of(View<float, 4> view, int64_t b, int64_t first, int64_t count) {
  return view.slice(0, b, 1).slice(1, first, count);
}

View<float, 3> part_of(View<float, 3> view, int64_t b, int64_t first, int64_t count) {
  return view.slice(0, b, 1).slice(2, first, count);
}

AttentionResults results_of(const AttentionCase& c, const Part& at) {
  return {
      values_of(part_of(c.out, at.b, at.q, at.queries)),      values_of(part_of(c.rows.shift, at.b, at.q, at.queries)),
      values_of(part_of(c.rows.sum, at.b, at.q, at.queries)), values_of(part_of(c.d_q, at.b, at.q, at.queries)),
      values_of(part_of(c.d_k, at.b, at.k, at.keys)),         values_of(part_of(c.d_v, at.b, at.k, at.keys))};
}

void copy(View<const float, 4> from, View<float, 4> to) {
  for (int64_t b = 0; b < to.size(0); ++b) {
    for (int64_t t = 0; t < to.size(1); ++t) {
      for (int64_t h = 0; h < to.size(2); ++h) std::copy_n(&from(b, t, h, 0), to.size(3), &to(b, t, h, 0));
    }
  }
}

void fill(View<float, 4> view, float value) {
  for (int64_t b = 0; b < view.size(0); ++b) {
    for (int64_t t = 0; t < view.size(1); ++t) {
      for (int64_t h = 0; h < view.size(2); ++h) std::fill_n(&view(b, t, h, 0), view.size(3), value);
    }
  }
}

// The part of c as a problem of its own.
AttentionCase alone(const AttentionCase& c, const Part& at, const Mask& mask) {
  AttentionSizes sizes = c.sizes;
  sizes.batch = 1;
  sizes.t_q = at.queries;
  sizes.t_k = at.keys;
  AttentionCase result(sizes, Layout::bthd, 99);
  result.options.mask = mask;
  copy(part_of(c.q, at.b, at.q, at.queries), result.q);
  copy(part_of(c.k, at.b, at.k, at.keys), result.k);
  copy(part_of(c.v, at.b, at.k, at.keys), result.v);
  copy(part_of(c.d_out, at.b, at.q, at.queries), result.d_out);
  return result;
}

class SameBits : public ::testing::Test {
 protected:
  ~SameBits() override { set_threads(before_); }

 private:
  int before_ = threads();
};

constexpr AttentionSizes kBatch{.batch = 3, .t_q = 410, .t_k = 410, .heads = 4, .kv_heads = 2, .d_k = 20, .d_v = 12};

// Masks that make uneven work, for kBatch.
std::vector<Mask> batch_masks() {
  return {Mask(), Mask::causal(), Mask::causal() & Mask::lengths({410, 131, 7}),
          Mask::window(70, 5) & Mask::documents({0, 129, 200})};
}

TEST_F(SameBits, ForAnyNumberOfThreads) {
  for (const Mask& mask : batch_masks()) {
    SCOPED_TRACE(mask.description());
    for (const int64_t heads : {1, 4}) {  // backward's tasks are blocks of keys or heads
      AttentionSizes sizes = kBatch;
      sizes.heads = heads;
      sizes.kv_heads = (heads + 1) / 2;
      AttentionCase c(sizes, Layout::bthd, 1);
      c.options.mask = mask;
      on_every_isa([&] {
        set_threads(1);
        const AttentionResults one = run(c);
        for (const int count : {2, 3, 7}) {
          SCOPED_TRACE(std::to_string(count) + " threads");
          set_threads(count);
          expect_same(run(c), one);
        }
      });
    }
  }
}

TEST_F(SameBits, ForAnItemAloneOrInABatch) {
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(70, 5) & Mask::documents({0, 129, 200})}) {
    SCOPED_TRACE(mask.description());
    AttentionCase c(kBatch, Layout::bthd, 2);
    c.options.mask = mask;
    on_every_isa([&] {
      run(c);
      for (int64_t b = 0; b < 3; ++b) {
        const Part item{b, 0, 410, 0, 410};
        AttentionCase one = alone(c, item, mask);
        expect_same(run(one), results_of(c, item));
      }
    });
  }
}

// Items of their own lengths, padded to the longest: queries past the length are not looked at and bring no gradient.
void expect_padding_changes_nothing(bool causal, float padding) {
  const std::vector<int64_t> lengths{410, 193, 17};
  AttentionCase c(kBatch, Layout::bhtd, 3);
  c.options.mask = Mask::lengths(lengths);
  if (causal) c.options.mask = c.options.mask & Mask::causal();
  for (int64_t b = 0; b < 3; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    for (const View<float, 4>& view : {c.k, c.v}) fill(part_of(view, b, length, 410 - length), padding);
    fill(part_of(c.d_out, b, length, 410 - length), 0.0F);
  }
  on_every_isa([&] {
    run(c);
    for (int64_t b = 0; b < 3; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      SCOPED_TRACE("length " + std::to_string(length));
      const Part item{b, 0, length, 0, length};
      AttentionCase one = alone(c, item, causal ? Mask::causal() : Mask());
      expect_same(run(one), results_of(c, item));
    }
  });
}

TEST_F(SameBits, ForAPaddedBatchAndEachItemAtItsOwnLength) {
  expect_padding_changes_nothing(false, 1.0F);
  expect_padding_changes_nothing(true, 1.0F);
}

TEST_F(SameBits, ForAPaddedBatchWithNanInThePadding) {
  expect_padding_changes_nothing(false, kNan);
  expect_padding_changes_nothing(true, kNan);
}

// Padding queries are rows of their own: in forward even NaN in them changes nobody.
TEST_F(SameBits, ForForwardWithNanInThePaddingQueries) {
  AttentionCase clean(kBatch, Layout::bthd, 4);
  AttentionCase c(kBatch, Layout::bthd, 4);
  fill(part_of(c.q, 1, 193, 410 - 193), kNan);
  on_every_isa([&] {
    clean.forward();
    c.forward();
    EXPECT_TRUE(same_bits(values_of(part_of(c.out, 1, 0, 193)), values_of(part_of(clean.out, 1, 0, 193))));
  });
}

TEST_F(SameBits, ForPackedDocumentsAndSeparateItems) {
  const std::vector<int64_t> bounds{0, 1, 50, 180, 385, 410};
  for (const bool causal : {false, true}) {
    AttentionCase c(kBatch, Layout::bthd, 5);
    c.options.mask = Mask::documents(std::vector<int64_t>(bounds.begin(), bounds.end() - 1));
    if (causal) c.options.mask = c.options.mask & Mask::causal();
    on_every_isa([&] {
      run(c);
      for (size_t n = 0; n + 1 < bounds.size(); ++n) {
        const int64_t length = bounds[n + 1] - bounds[n];
        SCOPED_TRACE("document of " + std::to_string(length) + (causal ? " causal" : ""));
        const Part document{1, bounds[n], length, bounds[n], length};
        AttentionCase one = alone(c, document, causal ? Mask::causal() : Mask());
        expect_same(run(one), results_of(c, document));
      }
    });
  }
}

constexpr AttentionSizes kRow{.t_q = 410, .t_k = 410, .heads = 2, .kv_heads = 1, .d_k = 20, .d_v = 12};

TEST_F(SameBits, ForACausalSequencePrefixByPrefix) {
  AttentionCase c(kRow, Layout::fused_qkv, 6);
  c.options.mask = Mask::causal();
  on_every_isa([&] {
    c.forward();
    for (const int64_t length : {1, 15, 16, 17, 47, 48, 49, 96, 127, 128, 129, 191, 192, 193, 256, 300, 409}) {
      SCOPED_TRACE("prefix " + std::to_string(length));
      AttentionCase prefix = alone(c, {0, 0, length, 0, length}, Mask::causal());
      prefix.forward();
      EXPECT_TRUE(same_bits(values_of(prefix.out), values_of(part_of(c.out, 0, 0, length))));
      EXPECT_TRUE(same_bits(values_of(prefix.rows.sum), values_of(part_of(c.rows.sum, 0, 0, length))));
      EXPECT_TRUE(same_bits(values_of(prefix.rows.shift), values_of(part_of(c.rows.shift, 0, 0, length))));
    }
  });
}

TEST_F(SameBits, ForAFewLastQueriesOfACausalPrefixAndTheFullForward) {
  AttentionCase c(kRow, Layout::bthd, 7);
  c.options.mask = Mask::causal();
  on_every_isa([&] {
    c.forward();
    for (const int64_t length : {1, 2, 48, 49, 127, 128, 129, 192, 193, 257, 410}) {
      for (const int64_t queries : {int64_t{1}, std::min<int64_t>(length, 5), std::min<int64_t>(length, 60)}) {
        SCOPED_TRACE(std::to_string(queries) + " queries of " + std::to_string(length));
        const Mask mask = Mask::causal(QueryPositions::bottom_right());
        AttentionCase last = alone(c, {0, length - queries, queries, 0, length}, mask);
        last.forward();
        EXPECT_TRUE(same_bits(values_of(last.out), values_of(part_of(c.out, 0, length - queries, queries))));
        EXPECT_TRUE(same_bits(values_of(last.rows.sum), values_of(part_of(c.rows.sum, 0, length - queries, queries))));
      }
    }
  });
}

TEST_F(SameBits, ForEveryLayout) {
  for (const Mask& mask : {Mask(), Mask::causal() & Mask::lengths({410, 131, 7})}) {
    AttentionCase fused(kBatch, Layout::fused_qkv, 8);
    fused.options.mask = mask;
    on_every_isa([&] {
      const AttentionResults expected = run(fused);
      for (const Layout layout : {Layout::bthd, Layout::bhtd}) {
        AttentionCase c(kBatch, layout, 8);
        c.options.mask = mask;
        copy(fused.q, c.q);
        copy(fused.k, c.k);
        copy(fused.v, c.v);
        copy(fused.d_out, c.d_out);
        expect_same(run(c), expected);
      }
    });
  }
}

TEST_F(SameBits, WithAndWithoutRowStates) {
  AttentionCase c(kBatch, Layout::bthd, 9);
  c.options.mask = Mask::causal();
  on_every_isa([&] {
    c.forward();
    const std::vector<float> expected = values_of(c.out);
    c.clear_results();
    attention_forward(c.inputs(), c.options, c.out);
    EXPECT_TRUE(same_bits(values_of(c.out), expected));
  });
}

TEST_F(SameBits, WithAndWithoutAnArenaWhateverItHolds) {
  AttentionCase c(kBatch, Layout::bthd, 10);
  c.options.mask = Mask::causal() & Mask::lengths({410, 131, 0});
  on_every_isa([&] {
    c.options.arena = nullptr;
    const AttentionResults expected = run(c);
    Arena arena;
    {
      const Arena::Scope scope(arena);
      std::fill_n(arena.take<float>(1 << 22), 1 << 22, kNan);
    }
    c.options.arena = &arena;
    expect_same(run(c), expected);
    expect_same(run(c), expected);  // and what a call left in it
  });
}

TEST_F(SameBits, ForMasksThatSayTheSame) {
  constexpr int64_t kT = 410;
  const auto all = std::make_unique<bool[]>(kT * kT);
  const auto none = std::make_unique<bool[]>(kT * kT);  // all false
  const auto past = std::make_unique<bool[]>(kT * kT);
  const auto near = std::make_unique<bool[]>(kT * kT);
  for (int64_t i = 0; i < kT * kT; ++i) {
    const int64_t distance = i / kT - i % kT;
    all[static_cast<size_t>(i)] = true;
    past[static_cast<size_t>(i)] = distance >= 0;
    near[static_cast<size_t>(i)] = distance >= -5 && distance <= 70;
  }
  const auto view = [](const std::unique_ptr<bool[]>& bits) { return View<const bool, 2>(bits.get(), {kT, kT}); };
  const std::pair<Mask, Mask> pairs[] = {
      {Mask(), Mask::keep(view(all))},
      {Mask(), Mask::block(view(none))},
      {Mask(), Mask::lengths({kT, kT, kT})},
      {Mask(), Mask::window(Mask::kUnlimited, Mask::kUnlimited)},
      {Mask(), Mask::documents(std::vector<int64_t>{0})},
      {Mask::causal(), Mask::keep(view(past))},
      {Mask::causal(), Mask::causal() & Mask::keep(view(all))},
      {Mask::causal(), Mask::window(Mask::kUnlimited, 0)},
      {Mask::window(70, 5), Mask::keep(view(near))},
  };
  for (const auto& [a, b] : pairs) {
    SCOPED_TRACE(a.description() + " and " + b.description());
    AttentionCase first(kBatch, Layout::bthd, 11);
    AttentionCase second(kBatch, Layout::bthd, 11);
    first.options.mask = a;
    second.options.mask = b;
    on_every_isa([&] { expect_same(run(second), run(first)); });
  }
}

TEST_F(SameBits, ForSharedKeyValueHeadsAndRepeatedOnes) {
  AttentionCase c(kBatch, Layout::bthd, 12);  // 4 query heads on 2
  AttentionSizes sizes = kBatch;
  sizes.kv_heads = sizes.heads;
  AttentionCase repeated(sizes, Layout::bthd, 13);
  c.options.mask = repeated.options.mask = Mask::causal();
  copy(c.q, repeated.q);
  copy(c.d_out, repeated.d_out);
  for (int64_t h = 0; h < 4; ++h) {
    copy(c.k.slice(2, h / 2, 1), repeated.k.slice(2, h, 1));
    copy(c.v.slice(2, h / 2, 1), repeated.v.slice(2, h, 1));
  }
  on_every_isa([&] {
    const AttentionResults got = run(c);
    const AttentionResults expected = run(repeated);
    EXPECT_TRUE(same_bits(got.out, expected.out));
    EXPECT_TRUE(same_bits(got.sum, expected.sum));
    EXPECT_TRUE(same_bits(got.d_q, expected.d_q));
  });
}

// A row with out-of-range scores takes another path through its panel: its neighbours must not notice.
// A sum that underflows to -0 meets +0 from the hidden keys of its tile, or does not.
TEST_F(SameBits, ForAResultThatUnderflowsToZero) {
  constexpr float kTiny = -std::numeric_limits<float>::denorm_min();
  AttentionCase c(kRow, Layout::bthd, 21);
  c.options.mask = Mask::causal();
  fill(c.q, 1.0F);
  fill(part_of(c.k, 0, 0, 20), -1.0F);  // 2^ of the scores is small
  fill(part_of(c.v, 0, 0, 20), kTiny);
  fill(c.d_out, kTiny);
  on_every_isa([&] {
    run(c);
    for (const int64_t length : {1, 5, 13, 20}) {
      SCOPED_TRACE("prefix " + std::to_string(length));
      AttentionCase prefix = alone(c, {0, 0, length, 0, length}, Mask::causal());
      run(prefix);
      EXPECT_TRUE(same_bits(values_of(prefix.out), values_of(part_of(c.out, 0, 0, length))));
      EXPECT_TRUE(same_bits(values_of(prefix.d_q), values_of(part_of(c.d_q, 0, 0, length))));
    }
    AttentionCase blocked = alone(c, {0, 0, kRow.t_q, 0, kRow.t_k}, Mask::lengths({20}));
    AttentionCase short_keys = alone(c, {0, 0, kRow.t_q, 0, 20}, Mask());
    run(blocked);
    run(short_keys);
    EXPECT_TRUE(same_bits(values_of(short_keys.out), values_of(blocked.out)));
    EXPECT_TRUE(same_bits(values_of(short_keys.d_v), values_of(part_of(blocked.d_v, 0, 0, 20))));
    EXPECT_TRUE(same_bits(values_of(short_keys.d_k), values_of(part_of(blocked.d_k, 0, 0, 20))));
  });
}

TEST_F(SameBits, ForARowWhateverTheScoresOfItsNeighbours) {
  for (const float size : {1e3F, 1e18F}) {
    AttentionCase calm(kRow, Layout::bthd, 14);
    AttentionCase c(kRow, Layout::bthd, 14);
    calm.options.mask = c.options.mask = Mask::window(150, 20);
    for (int64_t i = 0; i < 410; i += 7) {
      for (int64_t d = 0; d < kRow.d_k; ++d) c.q(0, i, 1, d) *= size;
    }
    on_every_isa([&] {
      run(calm);
      run(c);
      for (int64_t i = 0; i < 410; ++i) {
        if (i % 7 == 0) continue;
        ASSERT_TRUE(same_bits(values_of(part_of(c.out, 0, i, 1)), values_of(part_of(calm.out, 0, i, 1)))) << i;
        ASSERT_TRUE(same_bits(values_of(part_of(c.d_q, 0, i, 1)), values_of(part_of(calm.d_q, 0, i, 1)))) << i;
        ASSERT_TRUE(same_bits(values_of(part_of(c.rows.sum, 0, i, 1)), values_of(part_of(calm.rows.sum, 0, i, 1))));
      }
    });
  }
}

}  // namespace
}  // namespace heed::test
