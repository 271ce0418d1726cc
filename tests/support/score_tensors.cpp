#include "tests/support/score_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "heed/core/rng.h"

namespace heed::test {
namespace {

constexpr int64_t kGap = 3;  // between rows of the bias

Tensor normal(const std::vector<int64_t>& shape, uint64_t seed) {
  Tensor tensor(shape);
  Rng(seed).fill_normal(tensor.values());
  return tensor;
}

}  // namespace

View<float, 4> ScoreTensors::view_of(Tensor& tensor) const {
  const auto& [batch, t_q, t_k, heads, kv_heads, d_k, d_v] = case_.sizes;
  const int64_t row = t_k + kGap;
  return {tensor.values().data(), {bias_batch_, bias_heads_, t_q, t_k}, {bias_heads_ * t_q * row, t_q * row, row, 1}};
}

void ScoreTensors::use_bias(int64_t batch, int64_t heads, int64_t one_in) {
  bias_batch_ = batch;
  bias_heads_ = heads;
  const std::vector<int64_t> shape{batch, heads, case_.sizes.t_q, case_.sizes.t_k + kGap};
  bias_ = normal(shape, seed_ + 1);
  d_bias_ = normal(shape, seed_ + 2);
  if (one_in > 0) {
    Draw draw(seed_ + 3);
    for (float& value : bias_.values()) {
      if (draw.chance(one_in)) value = -std::numeric_limits<float>::infinity();
    }
  }
  case_.options.scores.bias = view_of(bias_);
  case_.score_gradients.d_bias = view_of(d_bias_);
}

void ScoreTensors::use_alibi() {
  const std::vector<float> slopes = alibi_slopes(case_.sizes.heads);
  slopes_ = Tensor({case_.sizes.heads});
  d_slopes_ = Tensor({case_.sizes.heads});
  std::copy(slopes.begin(), slopes.end(), slopes_.values().begin());
  case_.options.scores.alibi_slopes = slopes_.view<1>();
  case_.score_gradients.d_alibi_slopes = d_slopes_.view<1>();
}

void ScoreTensors::use_table(int64_t buckets, int64_t max_distance, bool bidirectional) {
  table_ = normal({buckets, case_.sizes.heads}, seed_ + 4);
  d_table_ = Tensor({buckets, case_.sizes.heads});
  case_.options.scores.relative = {table_.view<2>(), max_distance, bidirectional};
  case_.score_gradients.d_relative_table = d_table_.view<2>();
}

void ScoreTensors::use_sinks() {
  sinks_ = normal({case_.sizes.heads}, seed_ + 5);
  d_sinks_ = Tensor({case_.sizes.heads});
  case_.options.scores.sinks = sinks_.view<1>();
  case_.score_gradients.d_sinks = d_sinks_.view<1>();
}

std::string ScoreTensors::draw_options(Draw& draw) {
  ScoreOptions& scores = case_.options.scores;
  std::string words;
  const auto takes = [&](const char* name, int64_t one_in) {
    const bool taken = draw.chance(one_in);
    if (taken) words += std::string(" ") + name;
    return taken;
  };
  if (takes("cap", 3)) scores.soft_cap = draw.chance(3) ? 1.0F : 20.0F;
  if (takes("alibi", 3)) use_alibi();
  if (takes("table", 3)) use_table(4 * draw.between(1, 8), draw.between(20, 130), draw.chance(2));
  if (takes("bias", 3)) {
    use_bias(draw.chance(2) ? 1 : case_.sizes.batch, draw.chance(2) ? 1 : case_.sizes.heads,
             draw.chance(2) ? draw.between(2, 9) : 0);
  }
  if (takes("dropout", 3)) {
    scores.dropout = {0.1F * static_cast<float>(draw.between(1, 8)), seed_, 1, 2, {}};
    if (draw.chance(2)) {
      for (int64_t b = 0; b < case_.sizes.batch; ++b) scores.dropout.item_ids.push_back(static_cast<uint64_t>(7 - b));
    }
  }
  if (takes("sigmoid", 4)) {
    scores.normaliser = Normaliser::sigmoid;
  } else if (takes("sinks", 3)) {
    use_sinks();
  }
  if (scores.has_positions()) scores.positions = QueryPositions::from(draw.between(-3, 20));
  return words;
}

void expect_close(AttentionCase& c, const ReferenceResult& expected) {
  c.clear_results();
  c.forward();
  c.backward();
  EXPECT_LE(relative_error(values_of(c.out), expected.out), 2e-6) << "out";
  EXPECT_LE(relative_error(values_of(c.d_v), expected.d_v), 1e-5) << "d_v";
  EXPECT_LE(relative_error(values_of(c.d_q), expected.d_q, 0.1 * expected.d_q_terms), 1e-5) << "d_q";
  EXPECT_LE(relative_error(values_of(c.d_k), expected.d_k, 0.1 * expected.d_k_terms), 1e-5) << "d_k";
  const auto expect_option = [](const char* name, auto got, const std::vector<double>& wanted, double terms) {
    if (got.data() == nullptr) return;
    EXPECT_LE(relative_error(values_of(got), wanted, 0.1 * terms), 1e-5) << name;
  };
  expect_option("d_bias", c.score_gradients.d_bias.view, expected.d_bias, expected.bias_terms);
  expect_option("d_slopes", c.score_gradients.d_alibi_slopes, expected.d_slopes, expected.slope_terms);
  expect_option("d_table", c.score_gradients.d_relative_table, expected.d_table, expected.table_terms);
  expect_option("d_sinks", c.score_gradients.d_sinks, expected.d_sinks, expected.sink_terms);
}

}  // namespace heed::test
