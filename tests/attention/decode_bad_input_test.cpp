// Bad input of decode: an Error that names the function, the sizes and the rule, and nothing written.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heed/core/error.h"
#include "tests/support/cached_case.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

// A call that is right, so that each test makes one thing of it wrong.
class DecodeBadInput : public ::testing::Test {
 protected:
  DecodeBadInput() : cache(cache_options(c.sizes, 1000)), sequences(add_sequences(cache, 2)) {
    for (int64_t b = 0; b < 2; ++b) cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, 3 + b));
    q = c.q;
    out = c.out;
    rows = c.rows;
    call();  // it is right
    right_ = values_of(c.out);
    c.clear_results();
    untouched_ = values_of(c.out);
  }

  void call() { attention_decode(cache, sequences, q, options, out, rows); }

  void expect_refused(const std::vector<std::string>& texts) {
    expect_error(
        "attention_decode", [&] { call(); }, texts);
    EXPECT_TRUE(same_bits(values_of(c.out), untouched_));
  }

  AttentionCase c{{.batch = 2, .t_q = 2, .t_k = 10, .heads = 4, .kv_heads = 2, .d_k = 8, .d_v = 6}, Layout::bthd, 1};
  KvCache cache;
  std::vector<int64_t> sequences;
  // What change() makes of the score options is refused, and nothing of the cache is changed by it.
  void expect_scores_refused(const std::function<void(ScoreOptions&)>& change, const std::vector<std::string>& texts) {
    options.scores = {};
    change(options.scores);
    expect_refused(texts);
    options.scores = {};
    rows = c.rows;
    call();
    EXPECT_TRUE(same_bits(values_of(c.out), right_));
    c.clear_results();
  }

  View<const float, 4> q;
  DecodeOptions options;
  View<float, 4> out;
  RowStates<float> rows;

 private:
  std::vector<float> right_;
  std::vector<float> untouched_;
};

TEST_F(DecodeBadInput, AWidthOfQueriesThatIsNotTheCaches) {
  q = q.slice(3, 0, 7);
  expect_refused({"q has shape [2, 2, 4, 7]", "[2, 2, 4, 8]"});
}

TEST_F(DecodeBadInput, ANumberOfSequencesThatIsNotTheBatchs) {
  sequences.pop_back();
  expect_refused({"q has shape [2, 2, 4, 8]", "[1, 2, 4, 8]"});
}

TEST_F(DecodeBadInput, HeadsThatAreNoMultipleOfTheCaches) {
  q = q.slice(2, 0, 3);
  out = out.slice(2, 0, 3);
  rows = {};
  expect_refused({"3 heads", "2 key/value heads"});
}

TEST_F(DecodeBadInput, AnOutOfTheWrongShape) {
  out = out.slice(3, 0, 5);
  expect_refused({"out has shape [2, 2, 4, 5]", "[2, 2, 4, 6]"});
}

TEST_F(DecodeBadInput, ViewsThatWereNeverSet) {
  q = {};
  expect_refused({"q is a null view without a shape"});
  q = c.q;
  out = {};
  expect_refused({"out is a null view without a shape"});
}

TEST_F(DecodeBadInput, NullAndScatteredViews) {
  q = View<const float, 4>(nullptr, {2, 2, 4, 8});
  expect_refused({"q is a null view"});
  q = View<const float, 4>(c.q.data(), {2, 2, 4, 8}, {64, 32, 1, 4});
  expect_refused({"contiguous"});
}

TEST_F(DecodeBadInput, RowStatesOfTheWrongShape) {
  rows.sum = rows.sum.slice(2, 0, 1);
  expect_refused({"row states", "[2, 4, 2]"});
  rows.sum = {};
  expect_refused({"row states need both views"});
}

TEST_F(DecodeBadInput, ASequenceThatDoesNotExist) {
  sequences[1] = 9;
  expect_refused({"no sequence 9"});
}

TEST_F(DecodeBadInput, MoreQueriesThanKeys) {
  cache.truncate(sequences[1], 1);
  expect_refused({"2 queries", "sequence 1 has 1 keys", "append"});
}

TEST_F(DecodeBadInput, AScaleThatIsNotFinite) {
  options.scale = std::numeric_limits<float>::quiet_NaN();
  expect_refused({"scale"});
  options.scale = std::numeric_limits<float>::infinity();
  expect_refused({"scale"});
}

TEST_F(DecodeBadInput, ANegativeWindow) {
  options.window_left = -1;
  expect_refused({"window_left is -1"});
}

TEST_F(DecodeBadInput, ScoreOptionsOfTheWrongSize) {
  const std::vector<float> values(1000);
  const float* const data = values.data();
  expect_scores_refused([&](ScoreOptions& o) { o.alibi_slopes = {data, {2}}; }, {"2 slopes", "H = 4"});
  expect_scores_refused([&](ScoreOptions& o) { o.sinks = {data, {5}}; }, {"5 sinks", "H = 4"});
  expect_scores_refused([&](ScoreOptions& o) { o.relative.table = {data, {32, 2}}; }, {"[32, 2]", "H = 4"});
  expect_scores_refused([&](ScoreOptions& o) { o.relative.table = {data, {7, 4}}; }, {"7 buckets", "even"});
  // The sequences have 3 and 4 keys: rows are as long as the longest.
  for (const Shape<4> shape : {Shape<4>{3, 1, 2, 4}, {1, 2, 2, 4}, {1, 1, 1, 4}, {1, 1, 2, 3}, {1, 1, 2, 5}}) {
    expect_scores_refused([&](ScoreOptions& o) { o.bias = {data, shape}; }, {"bias of shape", "Tq = 2", "Tk = 4"});
  }
  expect_scores_refused([&](ScoreOptions& o) { o.bias = {data, {1, 1, 2, 4}, {8, 8, 1, 2}}; }, {"contiguous"});
  expect_scores_refused([&](ScoreOptions& o) { o.dropout.item_ids = {1}; }, {"1 item ids", "batch of 2"});
}

TEST_F(DecodeBadInput, ScoreOptionsOutOfRange) {
  for (const float p : {1.0F, 1.5F, -0.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_scores_refused([&](ScoreOptions& o) { o.dropout.probability = p; }, {"dropout", "below 1"});
  }
  for (const float cap : {0.0F, -1.0F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_scores_refused([&](ScoreOptions& o) { o.soft_cap = cap; }, {"soft cap", "above 0"});
  }
  const std::vector<float> slopes(4, 0.5F);
  const auto at = [&](std::vector<int64_t> offsets) {
    return [&slopes, offsets](ScoreOptions& o) {
      o.alibi_slopes = {slopes.data(), {4}};
      o.positions = QueryPositions::from(offsets);
    };
  };
  expect_scores_refused(at({1, 2, 3}), {"3 offsets", "batch of 2"});
  expect_scores_refused(at({0, int64_t{1} << 41}), {"offset"});
  expect_scores_refused(at({0, int64_t{1} << 30}), {"apart", "16777216"});
}

TEST_F(DecodeBadInput, SinksWithSigmoid) {
  const std::vector<float> sinks(4);
  expect_scores_refused(
      [&](ScoreOptions& o) {
        o.normaliser = Normaliser::sigmoid;
        o.sinks = {sinks.data(), {4}};
      },
      {"sinks", "sigmoid"});
}

// The edge cases that are no errors.
TEST_F(DecodeBadInput, NoQueriesAndNoItemsAreNoError) {
  EXPECT_NO_THROW(attention_decode(cache, sequences, c.q.slice(1, 0, 0), {}, c.out.slice(1, 0, 0)));
  EXPECT_NO_THROW(attention_decode(cache, {}, c.q.slice(0, 0, 0), {}, c.out.slice(0, 0, 0)));
}

TEST_F(DecodeBadInput, AnEmptySequenceThatIsLookedAtWithoutPositionsGivesZeros) {
  for (const int64_t sequence : sequences) cache.truncate(sequence, 0);
  options.causal = false;
  call();
  for (const float value : values_of(c.out)) EXPECT_EQ(value, 0.0F);
  for (const float value : values_of(c.rows.shift)) EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
  for (const float value : values_of(c.rows.sum)) EXPECT_EQ(value, 0.0F);
}

}  // namespace
}  // namespace heed::test
