// Decode with score options has the bits of the full forward with the same options: for any chunking of the prompt,
// batch mates, threads, windows and positions. Sizes cross the bounds of pages (128 keys).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr AttentionSizes kRow{.batch = 2, .t_q = 300, .t_k = 300, .heads = 4, .kv_heads = 2, .d_k = 20, .d_v = 12};
const Dropout kDropout{.probability = 0.3F, .seed = 5, .step = 6, .layer = 7, .item_ids = {}};

// Options with a name, given to a case.
struct Choice {
  const char* name;
  void (*use)(AttentionCase&, ScoreTensors&);
};

constexpr Choice kChoices[] = {
    {"soft cap", [](AttentionCase& c, ScoreTensors&) { c.options.scores.soft_cap = 1.5F; }},
    {"ALiBi", [](AttentionCase&, ScoreTensors& t) { t.use_alibi(); }},
    {"table", [](AttentionCase&, ScoreTensors& t) { t.use_table(32, 128, false); }},
    {"bias of a head", [](AttentionCase&, ScoreTensors& t) { t.use_bias(1, 4); }},
    {"bias of an item that hides keys", [](AttentionCase&, ScoreTensors& t) { t.use_bias(2, 1, 3); }},
    {"sinks", [](AttentionCase&, ScoreTensors& t) { t.use_sinks(); }},
    {"dropout", [](AttentionCase& c, ScoreTensors&) { c.options.scores.dropout = kDropout; }},
    {"sigmoid", [](AttentionCase& c, ScoreTensors&) { c.options.scores.normaliser = Normaliser::sigmoid; }},
    {"sigmoid, dropout, bias",
     [](AttentionCase& c, ScoreTensors& t) {
       c.options.scores.normaliser = Normaliser::sigmoid;
       c.options.scores.dropout = kDropout;
       t.use_bias(2, 4, 4);
     }},
    {"all but sigmoid",
     [](AttentionCase& c, ScoreTensors& t) {
       c.options.scores.soft_cap = 3.0F;
       c.options.scores.dropout = kDropout;
       c.options.scores.dropout.item_ids = {77, 12};
       t.use_alibi();
       t.use_table(16, 40, true);
       t.use_bias(2, 4, 9);
       t.use_sinks();
     }},
};
constexpr const Choice& kAll = kChoices[std::size(kChoices) - 1];

class DecodeScores : public ::testing::Test {
 protected:
  ~DecodeScores() override { set_threads(before_); }

 private:
  int before_ = threads();
};

TEST_F(DecodeScores, ForAnySplitOfThePromptIntoChunks) {
  for (const Choice& choice : kChoices) {
    SCOPED_TRACE(choice.name);
    AttentionCase c(kRow, Layout::bthd, 1);
    ScoreTensors tensors(c, 2);
    choice.use(c, tensors);
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int64_t size : {1, 3, 16, 17, 129}) {
        SCOPED_TRACE("chunks of " + std::to_string(size));
        expect_same(decode_bits(c, even_chunks(300, size)), expected);
      }
      expect_same(decode_bits(c, {127, 1, 1, 1, 60, 64, 2, 44}), expected);
    });
  }
}

TEST_F(DecodeScores, ForAnyNumberOfThreads) {
  for (const int64_t heads : {1, 6}) {
    AttentionSizes sizes = kRow;
    sizes.heads = heads;
    sizes.kv_heads = (heads + 1) / 2;
    sizes.t_q = sizes.t_k = 900;
    AttentionCase c(sizes, Layout::bthd, 3);
    ScoreTensors tensors(c, 4);
    tensors.use_alibi();
    tensors.use_bias(1, 1, 5);
    tensors.use_sinks();
    c.options.scores.dropout = kDropout;
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int count : {1, 2, 3, 7}) {
        SCOPED_TRACE(std::to_string(count) + " threads");
        set_threads(count);
        expect_same(decode_bits(c, {800, 97, 1, 1, 1}), expected);
      }
    });
  }
}

TEST_F(DecodeScores, ForAWindow) {
  AttentionCase c(kRow, Layout::bthd, 5);
  ScoreTensors tensors(c, 6);
  kAll.use(c, tensors);
  on_every_isa([&] {
    for (const int64_t left : {0, 70, 128, 200}) {
      SCOPED_TRACE("left " + std::to_string(left));
      const DecodeBits expected = forward_bits(c, Mask::window(left, 0));
      DecodeOptions options;
      options.window_left = left;
      for (const int64_t size : {1, 3, 60}) expect_same(decode_bits(c, even_chunks(300, size), options), expected);
    }
  });
}

// The last query of each of four sequences of different lengths, in one call. The bias is as wide as the longest; what
// lies past a shorter sequence's keys is NaN.
TEST_F(DecodeScores, ForASequenceWhateverItsBatchMates) {
  AttentionSizes sizes = kRow;
  sizes.batch = 4;
  AttentionCase c(sizes, Layout::bthd, 7);
  ScoreTensors tensors(c, 8);
  kAll.use(c, tensors);
  tensors.use_bias(4, 4, 7);
  c.options.scores.dropout.item_ids = {3, 1, 4, 15};
  AttentionSizes one = sizes;
  one.t_q = one.t_k = 1;
  AttentionCase last(one, Layout::bthd, 9);
  const std::vector<int64_t> lengths{300, 1, 129, 64};
  Tensor bias({4, 4, 1, 300});
  std::ranges::fill(bias.values(), kNan);
  DecodeOptions options;
  options.scores = c.options.scores;
  options.scores.bias = bias.view<4>();
  KvCache cache(cache_options(sizes, 2048));
  const std::vector<int64_t> sequences = add_sequences(cache, 4);
  for (int64_t b = 0; b < 4; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, length));
    for (int64_t h = 0; h < 4; ++h) {
      std::copy_n(&c.q(b, length - 1, h, 0), 20, &last.q(b, 0, h, 0));
      std::copy_n(&c.options.scores.bias(b, h, length - 1, 0), length, &bias.view<4>()(b, h, 0, 0));
    }
  }
  on_every_isa([&] {
    forward_bits(c);
    for (const int count : {1, 2}) {
      set_threads(count);
      last.clear_results();
      attention_decode(cache, sequences, last.q, options, last.out, last.rows);
      for (int64_t b = 0; b < 4; ++b) {
        const int64_t at = lengths[static_cast<size_t>(b)] - 1;
        EXPECT_TRUE(same_bits(values_of(last.out.slice(0, b, 1)), values_of(c.out.slice(0, b, 1).slice(1, at, 1))))
            << b;
      }
    }
  });
}

// Cross-attention: all keys are seen, and the queries' positions are stated. A few queries, and more than a few.
TEST_F(DecodeScores, ForQueriesThatSeeAllKeysAndStateTheirPositions) {
  AttentionSizes sizes = kRow;
  sizes.t_q = 40;
  AttentionCase c(sizes, Layout::bthd, 10);
  ScoreTensors tensors(c, 11);
  kAll.use(c, tensors);
  c.options.scores.positions = QueryPositions::top_left();
  KvCache cache(cache_options(sizes, 1024));
  const std::vector<int64_t> sequences = add_sequences(cache, 2);
  for (int64_t b = 0; b < 2; ++b) cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, 300));
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c, Mask());
    for (const int64_t chunk : {1, 4, 20, 40}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk));
      c.clear_results();
      for (int64_t first = 0; first < 40; first += chunk) {
        DecodeOptions options;
        options.causal = false;
        options.scores = c.options.scores;
        options.scores.bias = c.options.scores.bias.slice(2, first, chunk);
        options.scores.positions = QueryPositions::from({first, first});
        attention_decode(cache, sequences, c.q.slice(1, first, chunk), options, c.out.slice(1, first, chunk),
                         {c.rows.shift.slice(2, first, chunk), c.rows.sum.slice(2, first, chunk)});
      }
      expect_same(bits_of(c), expected);
    }
  });
}

// Biases that move whole pieces, or single keys, far out of the range where the shift is 0: 2^±60.
TEST_F(DecodeScores, ForBiasesThatMoveScoresFar) {
  AttentionCase c(kRow, Layout::bthd, 12);
  ScoreTensors tensors(c, 13);
  tensors.use_bias(1, 4);
  tensors.use_alibi();
  tensors.use_sinks();
  for (int64_t h = 0; h < 4; ++h) {
    for (int64_t i = 0; i < 300; ++i) {
      const float size = std::vector<float>{38.0F, 44.0F, 200.0F, 1e30F}[static_cast<size_t>(h)];
      for (int64_t j = i % 3 * 60; j < 300; j += i % 5 == 0 ? 1 : 3)
        tensors.bias()(0, h, i, j) += i % 2 == 0 ? size : -size;
    }
  }
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    for (const int64_t chunk : {1, 3, 100}) expect_same(decode_bits(c, even_chunks(300, chunk)), expected);
    set_threads(3);
    expect_same(decode_bits(c, even_chunks(300, 2)), expected);
  });
}

TEST_F(DecodeScores, ForSinksOfAnySize) {
  AttentionCase c(kRow, Layout::bthd, 14);
  ScoreTensors tensors(c, 15);
  for (const auto& [first, second] : {std::pair{-kInfinity, 50.0F}, {-80.0F, 300.0F}, {1e30F, -1e30F}, {kNan, 0.0F}}) {
    const std::vector<float> sinks{first, second, -first, 1.0F};
    c.options.scores.sinks = {sinks.data(), {4}};
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int64_t chunk : {1, 30}) expect_same(decode_bits(c, even_chunks(300, chunk)), expected);
    });
  }
}

// Keys and values that -∞ in the bias hides may be anything: NaN, and values so large that sums overflow.
TEST_F(DecodeScores, ForNanInKeysAndValuesThatTheBiasHides) {
  for (const bool sigmoid : {false, true}) {
    AttentionCase c(kRow, Layout::bthd, 16);
    ScoreTensors tensors(c, 17);
    tensors.use_bias(1, 1);
    c.options.scores.dropout = kDropout;
    if (sigmoid) c.options.scores.normaliser = Normaliser::sigmoid;
    for (const int64_t key : {0, 5, 130, 131, 299}) {
      for (int64_t i = 0; i < 300; ++i) tensors.bias()(0, 0, i, key) = -kInfinity;
      std::fill_n(&c.k(0, key, 0, 0), 20, kNan);
      std::fill_n(&c.v(0, key, 1, 0), 12, key == 5 ? kInfinity : kNan);
    }
    std::fill_n(&c.v(1, 40, 0, 0), 12, kNan);  // and one that is seen
    on_every_isa([&] {
      const DecodeBits expected = forward_bits(c);
      for (const int64_t chunk : {1, 4, 60}) {
        const DecodeBits got = decode_bits(c, even_chunks(300, chunk));
        EXPECT_TRUE(std::ranges::none_of(values_of(c.out.slice(0, 0, 1)), [](float x) { return std::isnan(x); }));
        EXPECT_TRUE(std::isnan(c.out(1, 200, 0, 0)) && !std::isnan(c.out(1, 200, 2, 0)));
        expect_same(got, expected);
      }
    });
  }
}

TEST_F(DecodeScores, ForValuesNearTheLargestFloat) {
  AttentionCase c(kRow, Layout::bthd, 18);
  ScoreTensors tensors(c, 19);
  kAll.use(c, tensors);
  for (int64_t t = 0; t < 300; ++t) std::fill_n(&c.v(0, t, 0, 0), 12, 2e38F);
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    for (const int64_t chunk : {1, 4, 60}) expect_same(decode_bits(c, even_chunks(300, chunk)), expected);
  });
}

// A row that sees no key: 0, and the log-sum-exp of its sink.
TEST_F(DecodeScores, ARowWhoseKeysAreAllHiddenHasTheSinkAlone) {
  AttentionCase c({.t_q = 1, .t_k = 1, .heads = 2, .kv_heads = 2, .d_k = 8, .d_v = 8}, Layout::bthd, 20);
  const std::vector<float> sinks{0.0F, 2.0F};
  const float hidden = -kInfinity;
  c.options.scores.sinks = {sinks.data(), {2}};
  c.options.scores.bias = {&hidden, {1, 1, 1, 1}};
  on_every_isa([&] {
    decode_bits(c, {1});
    for (const float value : values_of(c.out)) EXPECT_EQ(value, 0.0F);
    EXPECT_EQ(c.rows.sum(0, 0, 0), 1.0F);
    EXPECT_FLOAT_EQ(c.rows.sum(0, 1, 0), std::exp(2.0F));
  });
}

// Rows of any length, the last of which ends where the memory ends.
TEST_F(DecodeScores, ReadNothingPastTheBias) {
  for (const int64_t length : {1, 7, 16, 33, 128, 141}) {
    AttentionCase c({.t_q = length, .t_k = length, .heads = 2, .kv_heads = 1, .d_k = 8, .d_v = 8}, Layout::bthd, 21);
    KvCache cache(cache_options(c.sizes, 256));
    const std::vector<int64_t> sequences = add_sequences(cache, 1);
    cache.append(chunk_of(c, 0, sequences[0], 0, length));
    for (const int64_t t_q : {int64_t{1}, std::min<int64_t>(length, 5), length}) {
      const auto count = static_cast<size_t>(t_q * length);
      const GuardedMemory memory((count * sizeof(float) + 63) / 64 * 64, GuardedMemory::Side::end);
      auto* const end = reinterpret_cast<float*>(memory.data() + (count * sizeof(float) + 63) / 64 * 64);
      std::fill(end - count, end, 1.0F);
      DecodeOptions options;
      options.scores.bias = {end - count, {1, 1, t_q, length}};
      on_every_isa([&] {
        attention_decode(cache, sequences, c.q.slice(1, length - t_q, t_q), options, c.out.slice(1, length - t_q, t_q));
        EXPECT_TRUE(std::isfinite(c.out(0, length - 1, 0, 0)));
      });
    }
  }
}

}  // namespace
}  // namespace heed::test
