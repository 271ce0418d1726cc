// Bad score options: an Error that names the function, the sizes and the rule, and nothing written.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heed/core/error.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect_error.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr AttentionSizes kSizes{.batch = 2, .t_q = 3, .t_k = 5, .heads = 4, .kv_heads = 2, .d_k = 4, .d_v = 6};

class BadScoreOptions : public ::testing::Test {
 protected:
  // Forward and backward both refuse what change() made of the options, and name `words`.
  void expect_refused(const std::function<void(ScoreOptions&)>& change, const std::vector<std::string>& words) {
    AttentionCase c(kSizes, Layout::bthd, 1);
    c.options.scores.positions = QueryPositions::bottom_right();
    change(c.options.scores);
    c.clear_results();
    expect_error(
        "attention_forward", [&] { attention_forward(c.inputs(), c.options, c.out, {}); }, words);
    expect_error(
        "attention_backward",
        [&] {
          attention_backward(c.inputs(), c.options, {c.out, c.rows, c.d_out}, {c.d_q, c.d_k, c.d_v});
        },
        words);
    EXPECT_TRUE(std::isnan(c.out(0, 0, 0, 0)) && std::isnan(c.d_q(0, 0, 0, 0))) << "something was written";
  }

  std::vector<float> values_ = std::vector<float>(2000);
};

TEST_F(BadScoreOptions, ADropoutOutsideZeroToOne) {
  for (const float p : {1.0F, 1.5F, -0.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_refused([&](ScoreOptions& o) { o.dropout.probability = p; }, {"dropout", "below 1"});
  }
  expect_refused([](ScoreOptions& o) { o.dropout.item_ids = {1, 2, 3}; }, {"3 item ids", "batch of 2"});
}

TEST_F(BadScoreOptions, ASoftCapThatIsNotAboveZero) {
  for (const float cap :
       {0.0F, -1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    expect_refused([&](ScoreOptions& o) { o.soft_cap = cap; }, {"soft cap", "above 0"});
  }
}

TEST_F(BadScoreOptions, SlopesTablesSinksAndBiasesOfTheWrongSize) {
  expect_refused([&](ScoreOptions& o) { o.alibi_slopes = {values_.data(), {3}}; }, {"3 slopes", "H = 4"});
  expect_refused([&](ScoreOptions& o) { o.sinks = {values_.data(), {5}}; }, {"5 sinks", "H = 4"});
  expect_refused([&](ScoreOptions& o) { o.relative.table = {values_.data(), {32, 2}}; }, {"[32, 2]", "H = 4"});
  expect_refused([&](ScoreOptions& o) { o.relative.table = {values_.data(), {7, 4}}; }, {"7 buckets", "even"});
  expect_refused([&](ScoreOptions& o) { o.relative = {{values_.data(), {1, 4}}, 128, false}; }, {"1 buckets"});
  expect_refused([&](ScoreOptions& o) { o.relative = {{values_.data(), {32, 4}}, 8, true}; }, {"max_distance is 8"});
  for (const Shape<4> shape : {Shape<4>{3, 1, 3, 5}, {1, 2, 3, 5}, {1, 1, 5, 3}}) {
    expect_refused([&](ScoreOptions& o) { o.bias = {values_.data(), shape}; }, {"bias of shape", "Tq = 3", "Tk = 5"});
  }
  expect_refused([&](ScoreOptions& o) { o.bias = {values_.data(), {1, 1, 3, 5}, {15, 15, 1, 3}}; }, {"contiguous"});
}

TEST_F(BadScoreOptions, PositionsThatNobodyStates) {
  expect_refused(
      [&](ScoreOptions& o) {
        o.alibi_slopes = {values_.data(), {4}};
        o.positions = {};
      },
      {"Tq = 3", "Tk = 5", "QueryPositions"});
}

TEST_F(BadScoreOptions, MasksThatPlaceTheQueriesDifferently) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  c.options.mask = Mask::causal(QueryPositions::bottom_right()) & Mask::window(1, 1, QueryPositions::top_left());
  c.options.scores.alibi_slopes = {values_.data(), {4}};
  expect_error("attention_forward", [&] { c.forward(); }, {"at 2 and at 0", "positions"});
  c.options.scores.positions = QueryPositions::top_left();
  EXPECT_NO_THROW(c.forward());
}

TEST_F(BadScoreOptions, SinksWithSigmoid) {
  expect_refused(
      [&](ScoreOptions& o) {
        o.sinks = {values_.data(), {4}};
        o.normaliser = Normaliser::sigmoid;
      },
      {"sinks", "sigmoid"});
}

TEST_F(BadScoreOptions, GradientsOfWhatIsNotThereOrOfAnotherShape) {
  AttentionCase c(kSizes, Layout::bthd, 1);
  c.forward();
  const auto expect_refused_gradients = [&](const ScoreGradients& gradients, const std::vector<std::string>& words) {
    c.score_gradients = gradients;
    expect_error(
        "attention_backward", [&] { c.backward(); }, words);
  };
  const View<float, 1> of_heads(values_.data(), {4});
  expect_refused_gradients({{}, of_heads, {}, {}}, {"d_alibi_slopes", "nothing"});
  expect_refused_gradients({{}, {}, {}, of_heads}, {"d_sinks", "nothing"});
  expect_refused_gradients({{}, {}, {values_.data(), {32, 4}}, {}}, {"d_relative_table", "nothing"});
  c.options.scores.bias = {values_.data(), {1, 4, 3, 5}};
  expect_refused_gradients({.d_bias = View<float, 4>(values_.data(), {1, 1, 3, 5})},
                           {"d_bias", "[1, 1, 3, 5]", "[1, 4, 3, 5]"});
}

}  // namespace
}  // namespace heed::test
