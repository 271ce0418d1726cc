// Decode with an f32 cache has the bits of the full forward: for any chunking of the prompt, batch mates, threads,
// beams after fork and reorder. Sizes cross the bounds of pages (128 keys).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class DecodeSameBits : public ::testing::Test {
 protected:
  ~DecodeSameBits() override { set_threads(before_); }

 private:
  int before_ = threads();
};

constexpr AttentionSizes kRow{.t_q = 300, .t_k = 300, .heads = 4, .kv_heads = 2, .d_k = 20, .d_v = 12};

TEST_F(DecodeSameBits, ForAnySplitOfThePromptIntoChunks) {
  for (const int64_t kv_heads : {1, 2, 4}) {  // groups of 4, 2 and 1
    AttentionSizes sizes = kRow;
    sizes.kv_heads = kv_heads;
    AttentionCase c(sizes, Layout::bthd, 1);
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int64_t size : {1, 2, 3, 5, 16, 17, 100, 128, 129, 300}) {
        SCOPED_TRACE("chunks of " + std::to_string(size));
        expect_same(decode_bits(c, even_chunks(300, size)), expected);
      }
      expect_same(decode_bits(c, {127, 1, 1, 1, 60, 64, 2, 44}), expected);
    });
  }
}

TEST_F(DecodeSameBits, ForAnyWidths) {
  for (const auto& [d_k, d_v] :
       {std::pair{1, 1}, {7, 33}, {16, 64}, {64, 64}, {128, 128}, {80, 136}, {200, 5}, {300, 16}}) {
    SCOPED_TRACE(::testing::Message() << d_k << " and " << d_v);
    AttentionCase c({.t_q = 140, .t_k = 140, .heads = 6, .kv_heads = 2, .d_k = d_k, .d_v = d_v}, Layout::fused_qkv, 2);
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      expect_same(decode_bits(c, even_chunks(140, 1)), expected);
      expect_same(decode_bits(c, even_chunks(140, 4)), expected);
      expect_same(decode_bits(c, even_chunks(140, 70)), expected);
    });
  }
}

// A cache made for one instruction set serves all.
TEST_F(DecodeSameBits, ForAnyLayoutOfPages) {
  for (const int64_t kv_heads : {2, 6}) {
    AttentionCase c({.t_q = 150, .t_k = 150, .heads = 6, .kv_heads = kv_heads, .d_k = 20, .d_v = 88}, Layout::bthd, 9);
    round_to_bf16(c.k);
    round_to_bf16(c.v);
    for (const Isa made : supported_isas()) {
      for (const KvStorage storage : {KvStorage::f32, KvStorage::bf16}) {
        set_isa(made);
        KvCache cache(cache_options(c.sizes, c.sizes.t_k, storage));
        on_every_isa([&] {
          const DecodeBits expected = forward_bits(c);
          const std::vector<int64_t> sequences = {cache.add()};
          decode_in_chunks(cache, sequences, c, {}, std::vector<int64_t>{100, 1, 2, 4, 26, 17});
          expect_same(bits_of(c), expected);
          cache.remove(sequences[0]);
        });
      }
    }
    set_isa(supported_isas().back());
  }
}

TEST_F(DecodeSameBits, ForAnyNumberOfThreads) {
  for (const int64_t heads : {1, 6}) {
    AttentionSizes sizes = kRow;
    sizes.batch = 2;
    sizes.heads = heads;
    sizes.kv_heads = (heads + 1) / 2;
    sizes.t_q = sizes.t_k = 1500;
    AttentionCase c(sizes, Layout::bthd, 3);
    std::vector<int64_t> chunks = {1400, 97};
    chunks.insert(chunks.end(), 3, 1);
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int count : {1, 2, 3, 7}) {
        SCOPED_TRACE(std::to_string(count) + " threads");
        set_threads(count);
        expect_same(decode_bits(c, chunks), expected);
      }
    });
  }
}

TEST_F(DecodeSameBits, ForAWindow) {
  AttentionCase c(kRow, Layout::bthd, 4);
  on_every_isa([&] {
    for (const int64_t left : {0, 1, 70, 127, 128, 200}) {
      SCOPED_TRACE("left " + std::to_string(left));
      const DecodeBits expected = forward_bits(c, Mask::window(left, 0));
      DecodeOptions options;
      options.window_left = left;
      for (const int64_t size : {1, 3, 60}) expect_same(decode_bits(c, even_chunks(300, size), options), expected);
    }
  });
}

TEST_F(DecodeSameBits, ForQueriesThatSeeAllKeys) {
  for (const int64_t t_q : {1, 5, 40}) {
    AttentionCase c({.batch = 2, .t_q = t_q, .t_k = 300, .heads = 4, .kv_heads = 2, .d_k = 20, .d_v = 12}, Layout::bthd,
                    5);
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c, Mask());
      KvCache cache(cache_options(c.sizes, 1024));
      const std::vector<int64_t> sequences = add_sequences(cache, 2);
      for (int64_t b = 0; b < 2; ++b) cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, 300));
      DecodeOptions options;
      options.causal = false;
      c.clear_results();
      attention_decode(cache, sequences, c.q, options, c.out, c.rows);
      expect_same(bits_of(c), expected);
    });
  }
}

// Sequences of different lengths in one batch, and each alone.
TEST_F(DecodeSameBits, ForASequenceWhateverItsBatchMates) {
  AttentionSizes sizes = kRow;
  sizes.batch = 4;
  AttentionCase c(sizes, Layout::bthd, 6);
  const std::vector<int64_t> lengths{300, 1, 129, 64};
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    const std::vector<float> full = expected.out;
    KvCache cache(cache_options(sizes, 2048));
    const std::vector<int64_t> sequences = add_sequences(cache, 4);
    AttentionCase last({.batch = 4, .t_q = 1, .t_k = 1, .heads = 4, .kv_heads = 2, .d_k = 20, .d_v = 12}, Layout::bthd,
                       7);
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)];
      cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, length));
      for (int64_t h = 0; h < 4; ++h) std::copy_n(&c.q(b, length - 1, h, 0), 20, &last.q(b, 0, h, 0));
    }
    for (const int count : {1, 2}) {
      set_threads(count);
      last.clear_results();
      attention_decode(cache, sequences, last.q, {}, last.out, last.rows);
      for (int64_t b = 0; b < 4; ++b) {
        const int64_t at = lengths[static_cast<size_t>(b)] - 1;
        EXPECT_TRUE(same_bits(values_of(last.out.slice(0, b, 1)), values_of(c.out.slice(0, b, 1).slice(1, at, 1))))
            << b;
      }
    }
  });
}

// Beams: a common prompt, then tokens of their own, reordered in between. Each beam's history is a sequence of its own.
void expect_beams(const std::function<void(AttentionCase&, ScoreTensors&)>& use_options) {
  constexpr int64_t kPrompt = 120;
  constexpr int64_t kSteps = 20;
  AttentionSizes sizes = kRow;
  sizes.batch = 3;
  sizes.t_q = sizes.t_k = kPrompt + kSteps;
  AttentionCase token(sizes, Layout::bthd, 8);    // what beam b appends at each step
  AttentionCase history(sizes, Layout::bthd, 9);  // what each beam has seen
  ScoreTensors tensors(history, 19);
  use_options(history, tensors);
  DecodeOptions options;
  options.scores = history.options.scores;
  const auto copy_token = [&](const AttentionCase& from, int64_t b, int64_t to, int64_t t) {
    for (int64_t h = 0; h < 4; ++h) std::copy_n(&from.q(b, t, h, 0), 20, &history.q(to, t, h, 0));
    for (int64_t h = 0; h < 2; ++h) std::copy_n(&from.k(b, t, h, 0), 20, &history.k(to, t, h, 0));
    for (int64_t h = 0; h < 2; ++h) std::copy_n(&from.v(b, t, h, 0), 12, &history.v(to, t, h, 0));
  };
  on_every_isa([&] {
    KvCache cache(cache_options(sizes, 1024));
    std::vector<int64_t> beams{cache.add()};
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t t = 0; t < kPrompt; ++t) copy_token(token, 0, b, t);
    }
    cache.append(chunk_of(token, 0, beams[0], 0, kPrompt));
    beams.push_back(cache.fork(beams[0]));
    beams.push_back(cache.fork(beams[0]));
    for (int64_t step = 0; step < kSteps; ++step) {
      const int64_t t = kPrompt + step;
      for (int64_t b = 0; b < 3; ++b) copy_token(token, b, b, t);
      decode_chunk(cache, beams, history, options, t, 1);
      const std::vector<float> got = values_of(history.out.slice(1, t, 1));
      history.options.mask = Mask::causal();
      AttentionCase full(sizes, Layout::bthd, 10);
      attention_forward(history.inputs(), history.options, full.out);
      ASSERT_TRUE(same_bits(got, values_of(full.out.slice(1, t, 1)))) << "step " << step;
      // The next step's beams come from these.
      const std::vector<int64_t> parents = step % 3 == 0   ? std::vector<int64_t>{1, 1, 0}
                                           : step % 3 == 1 ? std::vector<int64_t>{2, 0, 1}
                                                           : std::vector<int64_t>{0, 0, 0};
      cache.reorder(beams, parents);
      const AttentionCase& before = full;
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t s = kPrompt; s <= t; ++s) {
          const int64_t from = parents[static_cast<size_t>(b)];
          std::copy_n(&history.k(from, s, 0, 0), 40, &before.k(b, s, 0, 0));
          std::copy_n(&history.v(from, s, 0, 0), 24, &before.v(b, s, 0, 0));
        }
      }
      for (int64_t b = 0; b < 3; ++b) {
        for (int64_t s = kPrompt; s <= t; ++s) {
          std::copy_n(&before.k(b, s, 0, 0), 40, &history.k(b, s, 0, 0));
          std::copy_n(&before.v(b, s, 0, 0), 24, &history.v(b, s, 0, 0));
        }
      }
    }
  });
}

TEST_F(DecodeSameBits, ForBeamsAfterForkAndReorder) {
  expect_beams([](AttentionCase&, ScoreTensors&) {});
}

TEST_F(DecodeSameBits, ForBeamsWithScoreOptionsAfterForkAndReorder) {
  expect_beams([](AttentionCase& c, ScoreTensors& tensors) {
    tensors.use_alibi();
    tensors.use_bias(1, 4, 6);
    tensors.use_sinks();
    c.options.scores.soft_cap = 4.0F;
    c.options.scores.dropout = {0.2F, 1, 2, 3, {9, 9, 9}};
  });
}

TEST_F(DecodeSameBits, AfterATruncationAsIfTheKeysHadNeverBeen) {
  AttentionCase c(kRow, Layout::bthd, 11);
  AttentionCase other(kRow, Layout::bthd, 12);
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    KvCache cache(cache_options(kRow, 512));
    const std::vector<int64_t> sequences = add_sequences(cache, 1);
    decode_chunk(cache, sequences, c, {}, 0, 130);
    cache.append(chunk_of(other, 0, sequences[0], 130, 100));
    cache.truncate(sequences[0], 130);
    decode_chunk(cache, sequences, c, {}, 130, 1);
    decode_chunk(cache, sequences, c, {}, 131, 169);
    expect_same(bits_of(c), expected);
  });
}

// Scores far outside of the range where the shift is 0, in some rows, heads and pieces.
TEST_F(DecodeSameBits, ForLargeScores) {
  for (const float size : {30.0F, 1e3F, 1e18F}) {
    AttentionCase c(kRow, Layout::bthd, 13);
    for (int64_t t = 0; t < 300; t += 3) {
      for (int64_t d = 0; d < kRow.d_k; ++d) {
        c.q(0, t, 1, d) *= size;
        c.k(0, t, 0, d) *= t >= 128 && t < 256 ? size : 1.0F;
      }
    }
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int64_t chunk : {1, 3, 100}) expect_same(decode_bits(c, even_chunks(300, chunk)), expected);
      set_threads(3);
      expect_same(decode_bits(c, even_chunks(300, 2)), expected);
    });
  }
}

// Values so large that a partial sum overflows although the result is finite.
TEST_F(DecodeSameBits, ForValuesNearTheLargestFloat) {
  AttentionCase c(kRow, Layout::bthd, 14);
  for (int64_t t = 0; t < 300; ++t) {
    for (int64_t d = 0; d < kRow.d_v; ++d) c.v(0, t, 0, d) = 3e38F;
  }
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    expect_same(decode_bits(c, even_chunks(300, 1)), expected);
    expect_same(decode_bits(c, even_chunks(300, 4)), expected);
  });
}

// A query sees nothing of the keys after it, even where they are NaN and in the cache.
TEST_F(DecodeSameBits, WithNanInLaterKeysAndValues) {
  AttentionCase c(kRow, Layout::bthd, 15);
  for (int64_t d = 0; d < kRow.d_k; ++d) c.k(0, 297, 0, d) = kNan;
  for (int64_t d = 0; d < kRow.d_v; ++d) c.v(0, 298, 1, d) = kNan;
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    for (const int64_t chunk : {1, 4, 10, 100}) {
      SCOPED_TRACE(chunk);
      decode_bits(c, even_chunks(300, chunk));
      const auto until = [&](int64_t t) { return values_of(c.out.slice(1, 0, t)); };
      AttentionCase full(kRow, Layout::bthd, 16);
      full.options.mask = Mask::causal();
      attention_forward(c.inputs(), full.options, full.out);
      EXPECT_TRUE(same_bits(until(297), values_of(full.out.slice(1, 0, 297))));
      EXPECT_TRUE(std::isnan(c.out(0, 299, 0, 0)) && std::isnan(c.out(0, 298, 3, 0)));
    }
  });
}

TEST_F(DecodeSameBits, WithAndWithoutAnArenaWhateverItHolds) {
  AttentionCase c(kRow, Layout::bthd, 17);
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    Arena arena;
    {
      const Arena::Scope scope(arena);
      std::fill_n(arena.take<float>(1 << 21), 1 << 21, kNan);
    }
    DecodeOptions options;
    options.arena = &arena;
    for (const int count : {1, 3}) {
      set_threads(count);
      expect_same(decode_bits(c, even_chunks(300, 7), options), expected);
      expect_same(decode_bits(c, even_chunks(300, 50), options), expected);
    }
  });
}

TEST_F(DecodeSameBits, ForAScaleOfTheCallers) {
  AttentionCase c(kRow, Layout::bthd, 18);
  c.options.scale = -0.31F;
  DecodeOptions options;
  options.scale = -0.31F;
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    expect_same(decode_bits(c, even_chunks(300, 2), options), expected);
  });
}

}  // namespace
}  // namespace heed::test
