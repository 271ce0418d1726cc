// Insight, bad input: an Error that names the function, the sizes and the rule, and nothing written. Empty input: fine.
#include <gtest/gtest.h>

#include <vector>

#include "heed/attention/insight.h"
#include "tests/support/expect_error.h"
#include "tests/support/insight_results.h"

namespace heed::test {
namespace {

// A problem that is right, so that each test makes one thing of it wrong.
class InsightInput : public ::testing::Test {
 protected:
  InsightInput() { c.forward(); }
  ~InsightInput() override {
    for (const float value : memory_) EXPECT_EQ(value, 5.0F) << "written";
    for (const int64_t key : keys_) EXPECT_EQ(key, 5) << "written";
  }

  template <int N>
  View<float, N> out(const Shape<N>& shape) {
    return {memory_.data(), shape};
  }
  View<int64_t, 4> keys(const Shape<4>& shape) { return {keys_.data(), shape}; }

  void expect_tile_refused(AttentionStep step, const TilePlace& place, View<float, 2> to,
                           std::initializer_list<const char*> parts) const {
    SCOPED_TRACE(step_name(step));
    expect_error([&] { attention_tile(c.inputs(), c.options, rows, step, place, to); }, parts);
  }
  void expect_rows_refused(int64_t q_begin, const RowInsight& to, std::initializer_list<const char*> parts) const {
    expect_error([&] { attention_row_insight(c.inputs(), c.options, rows, q_begin, to); }, parts);
  }

  AttentionCase c{{2, 5, 7, 4, 2, 3, 6}, Layout::bthd, 1};
  RowStates<const float> rows = c.rows;

 private:
  std::vector<float> memory_ = std::vector<float>(4096, 5.0F);
  std::vector<int64_t> keys_ = std::vector<int64_t>(4096, 5);
};

TEST_F(InsightInput, tiles_that_are_not_there) {
  for (const AttentionStep step : {AttentionStep::scores, AttentionStep::weights}) {
    expect_tile_refused(step, {2, 0, 0, 0}, out<2>({1, 7}), {"attention_tile: 1 items from 2", "there are 2"});
    expect_tile_refused(step, {-1, 0, 0, 0}, out<2>({1, 7}), {"attention_tile: 1 items from -1"});
    expect_tile_refused(step, {0, 4, 0, 0}, out<2>({1, 7}), {"attention_tile: 1 heads from 4", "there are 4"});
    expect_tile_refused(step, {0, 0, 4, 0}, out<2>({2, 7}), {"attention_tile: 2 queries from 4", "there are 5"});
    expect_tile_refused(step, {0, 0, 0, 1}, out<2>({1, 7}), {"attention_tile: 7 keys from 1", "there are 7"});
    expect_tile_refused(step, {0, 0, 0, int64_t{1} << 62}, out<2>({1, 7}), {"attention_tile: 7 keys from"});
  }
  expect_tile_refused(AttentionStep::heads, {0, 0, 0, 1}, out<2>({1, 6}), {"attention_tile", "begins at key 1"});
  expect_tile_refused(AttentionStep::heads, {0, 0, 0, 0}, out<2>({1, 7}), {"attention_tile", "[1, 7]", "Dv = 6"});
}

TEST_F(InsightInput, results_that_cannot_be_written) {
  expect_tile_refused(AttentionStep::weights, {}, {nullptr, {1, 7}}, {"attention_tile: out is a null view", "[1, 7]"});
  const View<float, 2> strided(out<2>({1, 7}).data(), {2, 7}, {20, 2});
  expect_tile_refused(AttentionStep::weights, {}, strided, {"attention_tile: out has strides", "contiguous"});
  expect_error(
      [&] {
        attention_weights(c.inputs(), c.options, rows, out<4>({2, 4, 7, 5}));
      },
      {"attention_weights: out has shape [2, 4, 7, 5], expected [2, 4, 5, 7]"});
  expect_error(
      [&] {
        attention_weights(c.inputs(), c.options, rows, {nullptr, {2, 4, 5, 7}});
      },
      {"attention_weights: out is a null view"});
  expect_error(
      [&] {
        attention_mass_received(c.inputs(), c.options, rows, out<3>({2, 2, 7}));
      },
      {"attention_mass_received: out has shape [2, 2, 7], expected [B, H, Tk] = [2, 4, 7]"});
  expect_error(
      [&] {
        attention_mass_received(c.inputs(), c.options, rows, {nullptr, {2, 4, 7}});
      },
      {"attention_mass_received: out is a null view"});
}

TEST_F(InsightInput, rows_that_are_not_there_or_do_not_agree) {
  const View<float, 3> four = out<3>({2, 4, 4});
  expect_rows_refused(2, {four, {}, {}, {}}, {"attention_row_insight: 4 queries from 2", "there are 5"});
  expect_rows_refused(-1, {four, {}, {}, {}}, {"attention_row_insight: 4 queries from -1"});
  expect_rows_refused(0, {four, out<3>({2, 4, 3}), {}, {}}, {"attention_row_insight: largest", "[2, 4, 3]", "N = 4"});
  expect_rows_refused(0, {out<3>({2, 2, 4}), {}, {}, {}}, {"attention_row_insight: entropy", "[2, 2, 4]", "H = 4"});
  expect_rows_refused(0, {{}, {}, keys({2, 4, 4, 0}), {}}, {"attention_row_insight: top_keys", "K must be 1 or more"});
  expect_rows_refused(0, {{}, {}, {}, out<4>({2, 4, 4, 0})},
                      {"attention_row_insight: top_weights", "K must be 1 or more"});
  expect_rows_refused(0, {{}, {}, keys({2, 4, 4, 2}), out<4>({2, 4, 4, 3})},
                      {"attention_row_insight", "[2, 4, 4, 2]", "[2, 4, 4, 3]", "agree in K"});
  expect_rows_refused(0, {{nullptr, {2, 4, 4}}, {}, {}, {}}, {"attention_row_insight: entropy is a null view"});
}

TEST_F(InsightInput, states_of_wrong_size_or_none) {
  const auto expect_refused = [&](std::initializer_list<const char*> parts) {
    expect_tile_refused(AttentionStep::weights, {}, out<2>({1, 7}), parts);
    expect_rows_refused(0, {out<3>({2, 4, 4}), {}, {}, {}}, parts);
    expect_error([&] { attention_weights(c.inputs(), c.options, rows, out<4>({2, 4, 5, 7})); }, parts);
    expect_error([&] { attention_mass_received(c.inputs(), c.options, rows, out<3>({2, 4, 7})); }, parts);
  };
  rows.shift = c.rows.shift.slice(2, 0, 4);
  expect_refused({"attention_", "row states have shapes [2, 4, 4] and [2, 4, 5]"});
  rows.shift = {};
  expect_refused({"attention_", "row states need both views"});
  rows = {};
  expect_refused({"attention_", "row states need both views"});
}

TEST_F(InsightInput, inputs_that_do_not_fit) {
  c.options.mask = Mask::lengths({9, 2});
  expect_tile_refused(AttentionStep::scores, {}, out<2>({1, 7}), {"attention_tile", "length of 9"});
  expect_rows_refused(0, {out<3>({2, 4, 4}), {}, {}, {}}, {"attention_row_insight", "length of 9"});
}

TEST_F(InsightInput, only_weights_need_states) {
  rows = {};
  std::vector<float> values(7);
  for (const AttentionStep step : {AttentionStep::scores, AttentionStep::scaled, AttentionStep::masked}) {
    attention_tile(c.inputs(), c.options, {}, step, {}, {values.data(), {1, 7}});
  }
  attention_tile(c.inputs(), c.options, {}, AttentionStep::heads, {}, {values.data(), {1, 6}});
}

TEST(InsightEmpty, no_queries_no_keys_no_items) {
  for (const AttentionSizes& sizes : {AttentionSizes{1, 0, 7, 2, 1, 3, 4}, AttentionSizes{1, 5, 0, 2, 1, 3, 4},
                                      AttentionSizes{0, 5, 7, 2, 1, 3, 4}}) {
    SCOPED_TRACE(sizes.to_text());
    AttentionCase c(sizes, Layout::bthd, 1);
    c.forward();
    EXPECT_EQ(all_weights(c).size(), static_cast<size_t>(sizes.batch * 2 * sizes.t_q * sizes.t_k));
    for (const float mass : mass_received(c)) EXPECT_EQ(mass, 0.0F);
    const RowResults rows(c, 0, sizes.t_q, 2);
    for (const float entropy : rows.entropy) EXPECT_EQ(entropy, 0.0F);
    for (const int64_t key : rows.top_keys) EXPECT_EQ(key, -1);
    if (sizes.batch == 0) continue;
    const StepTile heads = whole_step(c, AttentionStep::heads, 0, 1);
    for (const float value : heads.values) EXPECT_EQ(value, 0.0F);
    EXPECT_TRUE(whole_step(c, AttentionStep::weights, 0, 1).values.empty());
  }
}

TEST_F(InsightInput, steps_that_are_not_taken) {
  const auto expect_refused = [&](AttentionStep step, std::initializer_list<const char*> parts) {
    expect_tile_refused(step, {}, out<2>({1, 7}), parts);
  };
  expect_refused(AttentionStep::capped,
                 {"attention_tile: step capped is not taken: there is no soft cap; ask for scaled"});
  expect_refused(AttentionStep::biased,
                 {"attention_tile: step biased is not taken", "ALiBi, relative table or dense bias; ask for scaled"});
  expect_refused(AttentionStep::dropped,
                 {"attention_tile: step dropped is not taken: there is no dropout; ask for weights"});
  c.options.scores.soft_cap = 2.0F;
  expect_refused(AttentionStep::biased, {"attention_tile: step biased is not taken", "; ask for capped"});
  EXPECT_TRUE(takes_step(c.options.scores, AttentionStep::capped));
  EXPECT_FALSE(takes_step(c.options.scores, AttentionStep::biased));
  EXPECT_TRUE(takes_step(c.options.scores, AttentionStep::masked));
}

TEST_F(InsightInput, steps_outside_of_attention_itself) {
  for (const AttentionStep step : {AttentionStep::x, AttentionStep::q, AttentionStep::w_o, AttentionStep::out}) {
    expect_tile_refused(step, {}, out<2>({1, 7}),
                        {"attention_tile: step", step_name(step).data(), "ask for one from scores to heads"});
  }
}

TEST_F(InsightInput, score_options_that_do_not_fit) {
  c.options.scores.soft_cap = 0.0F;
  expect_tile_refused(AttentionStep::scores, {}, out<2>({1, 7}), {"attention_tile: soft cap is 0"});
  expect_rows_refused(0, {out<3>({2, 4, 4}), {}, {}, {}}, {"attention_row_insight: soft cap is 0"});
  c.options.scores.soft_cap = {};
  const float slopes[] = {1.0F, 2.0F, 3.0F};
  c.options.scores.alibi_slopes = {slopes, {3}};
  c.options.scores.positions = QueryPositions::from(0);
  expect_error(
      [&] {
        attention_mass_received(c.inputs(), c.options, rows, out<3>({2, 4, 7}));
      },
      {"attention_mass_received: ALiBi has 3 slopes for H = 4"});
}

TEST_F(InsightInput, sigmoid_has_no_entropy) {
  c.options.scores.normaliser = Normaliser::sigmoid;
  expect_rows_refused(0, {out<3>({2, 4, 4}), {}, {}, {}},
                      {"attention_row_insight: entropy with the sigmoid normaliser", "ask for largest and top keys"});
}

}  // namespace
}  // namespace heed::test
