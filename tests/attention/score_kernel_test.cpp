// Score options in the fused kernels: each alone at sizes past all blocks, the contract's edge cases, the same bits for
// threads and batch mates, and one dropout mask for both passes. Random combinations are in random_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention/dropout.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Past a piece of 128 keys, a block of 192 and a tile of 96 queries; two query heads for each key/value head.
constexpr AttentionSizes kSizes{.batch = 2, .t_q = 230, .t_k = 230, .heads = 4, .kv_heads = 2, .d_k = 12, .d_v = 20};

struct OptionCase {
  const char* name;
  std::function<void(AttentionCase&, ScoreTensors&)> use;
};

const std::vector<OptionCase>& option_cases() {
  static const std::vector<OptionCase> cases{
      {"bias", [](AttentionCase&, ScoreTensors& t) { t.use_bias(2, 4); }},
      {"bias for all heads", [](AttentionCase&, ScoreTensors& t) { t.use_bias(2, 1); }},
      {"bias for all items", [](AttentionCase&, ScoreTensors& t) { t.use_bias(1, 4); }},
      {"bias for all", [](AttentionCase&, ScoreTensors& t) { t.use_bias(1, 1, 5); }},
      {"alibi", [](AttentionCase&, ScoreTensors& t) { t.use_alibi(); }},
      {"table", [](AttentionCase&, ScoreTensors& t) { t.use_table(32, 128, true); }},
      {"one-sided table", [](AttentionCase&, ScoreTensors& t) { t.use_table(32, 128, false); }},
      {"cap", [](AttentionCase& c, ScoreTensors&) { c.options.scores.soft_cap = 2.0F; }},
      {"sinks", [](AttentionCase&, ScoreTensors& t) { t.use_sinks(); }},
      {"sigmoid", [](AttentionCase& c, ScoreTensors&) { c.options.scores.normaliser = Normaliser::sigmoid; }},
      {"dropout", [](AttentionCase& c, ScoreTensors&) { c.options.scores.dropout.probability = 0.3F; }},
      {"all",
       [](AttentionCase& c, ScoreTensors& t) {
         t.use_bias(1, 1, 7);
         t.use_alibi();
         t.use_table(16, 60, true);
         t.use_sinks();
         c.options.scores.soft_cap = 3.0F;
         c.options.scores.dropout = {0.2F, 11, 12, 13, {5, 3}};
       }},
  };
  return cases;
}

TEST(ScoreKernel, EachOptionAloneMatchesTheReference) {
  for (const OptionCase& each : option_cases()) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::string(each.name) + (causal ? ", causal" : ", dense"));
      AttentionCase c(kSizes, Layout::fused_qkv, 3);
      ScoreTensors tensors(c, 5);
      each.use(c, tensors);
      if (causal) c.options.mask = Mask::causal();
      const ReferenceResult expected = reference_result(c);
      on_every_isa([&] { expect_close(c, expected); });
    }
  }
}

// Everything that a case computes, one list after the other.
std::vector<std::vector<float>> all_results(AttentionCase& c) {
  const AttentionResults plain = run(c);
  std::vector<std::vector<float>> results{plain.out, plain.d_q, plain.d_k, plain.d_v, plain.shift, plain.sum};
  const auto add = [&](auto view) {
    if (view.data() != nullptr) results.push_back(values_of(view));
  };
  add(c.score_gradients.d_bias.view);
  add(c.score_gradients.d_alibi_slopes);
  add(c.score_gradients.d_relative_table);
  add(c.score_gradients.d_sinks);
  return results;
}

void expect_same(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(same_bits(a[i], b[i])) << "list " << i;
}

// A row that sees no key is no exception, and who knows this need not give them.
TEST(ScoreKernel, RowsBySigmoidHaveShift0AndSum1) {
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_bias(2, 4, 7);
  c.options.scores.normaliser = Normaliser::sigmoid;
  c.options.scores.dropout.probability = 0.3F;
  c.options.mask = Mask::lengths({100, 0});
  c.v(0, 3, 0, 0) = kNan;
  on_every_isa([&] {
    const AttentionResults given = run(c);
    EXPECT_EQ(given.shift, std::vector<float>(given.shift.size(), 0.0F));
    EXPECT_EQ(given.sum, std::vector<float>(given.sum.size(), 1.0F));
    c.clear_results();
    attention_forward(c.inputs(), c.options, c.out);
    attention_backward(c.inputs(), c.options, {c.out, {}, c.d_out}, {c.d_q, c.d_k, c.d_v});
    EXPECT_TRUE(same_bits(values_of(c.out), given.out));
    EXPECT_TRUE(same_bits(values_of(c.d_q), given.d_q));
    EXPECT_TRUE(same_bits(values_of(c.d_k), given.d_k));
    EXPECT_TRUE(same_bits(values_of(c.d_v), given.d_v));
  });
}

TEST(ScoreKernel, SameBitsForAnyThreadCount) {
  const int before = threads();
  const Mask masks[] = {Mask::causal(), Mask::lengths({100, 230}),
                        Mask::causal() & Mask::documents_by_item({{0, 90}, {0, 17, 150, 200}}),
                        Mask::documents({0, 130})};
  for (const OptionCase& each : option_cases()) {
    for (const Mask& mask : masks) {
      SCOPED_TRACE(std::string(each.name) + " " + mask.description());
      AttentionCase c(kSizes, Layout::bthd, 3);
      ScoreTensors tensors(c, 5);
      each.use(c, tensors);
      c.options.mask = mask;
      on_every_isa([&] {
        set_threads(1);
        const auto expected = all_results(c);
        for (const int count : {2, 3, 7}) {
          set_threads(count);
          expect_same(all_results(c), expected);
        }
      });
    }
  }
  set_threads(before);
}

// A broadcast d_bias waits for heads in their order: many more heads than threads, and fewer.
TEST(ScoreKernel, ABroadcastBiasGradientAddsHeadsInTheirOrder) {
  const int before = threads();
  for (const int64_t kv_heads : {1, 3, 6, 24}) {
    AttentionCase c({.batch = 2, .t_q = 200, .t_k = 400, .heads = 24, .kv_heads = kv_heads, .d_k = 4, .d_v = 4},
                    Layout::bthd, 9);
    ScoreTensors tensors(c, 5);
    tensors.use_bias(1, 1);
    set_threads(1);
    const auto expected = all_results(c);
    for (const int count : {2, 5}) {
      set_threads(count);
      expect_same(all_results(c), expected);
    }
  }
  set_threads(before);
}

TEST(ScoreKernel, SameBitsAloneOrInABatch) {
  for (const OptionCase& each : option_cases()) {
    SCOPED_TRACE(each.name);
    AttentionCase both(kSizes, Layout::bthd, 3);
    ScoreTensors tensors(both, 5);
    each.use(both, tensors);
    both.options.mask = Mask::causal();
    on_every_isa([&] {
      both.forward();
      AttentionOptions options = both.options;
      const uint64_t id = options.scores.dropout.item_id(1);
      options.scores.dropout.item_ids = {id};
      View<const float, 4>& bias = options.scores.bias;
      if (bias.data() != nullptr && bias.size(0) == 2) bias = bias.slice(0, 1, 1);
      Tensor out({1, kSizes.t_q, kSizes.heads, kSizes.d_v});
      attention_forward({both.q.slice(0, 1, 1), both.k.slice(0, 1, 1), both.v.slice(0, 1, 1)}, options, out.view<4>());
      EXPECT_TRUE(same_bits(values_of(View<const float, 4>(out.view<4>())), values_of(both.out.slice(0, 1, 1))));
    });
  }
}

TEST(ScoreKernel, AnOptionThatChangesNothingGivesTheBitsOfThePlainKernel) {
  AttentionCase c(kSizes, Layout::bhtd, 3);
  c.options.mask = Mask::causal();
  const std::vector<float> zeros(4, 0.0F);
  on_every_isa([&] {
    c.options.scores.alibi_slopes = {};
    const AttentionResults plain = run(c);
    c.options.scores.alibi_slopes = {zeros.data(), {4}};
    const AttentionResults passed = run(c);
    EXPECT_TRUE(same_bits(plain.out, passed.out));
    EXPECT_TRUE(same_bits(plain.sum, passed.sum));
  });
}

TEST(ScoreKernel, MinusInfinityInTheBiasHidesItsKeyEvenWhereItIsNotFinite) {
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_bias(1, 1);
  const View<float, 4> bias = tensors.bias();
  for (int64_t q = 0; q < kSizes.t_q; ++q) bias(0, 0, q, 140) = -kInfinity;
  for (int64_t k = 0; k < kSizes.t_k; ++k) bias(0, 0, 7, k) = -kInfinity;
  const ReferenceResult expected = reference_result(c);
  for (const float value : {kNan, kInfinity}) {
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t head = 0; head < 2; ++head) c.k(b, 140, head, 3) = c.v(b, 140, head, 2) = value;
    }
    on_every_isa([&] {
      expect_close(c, expected);
      EXPECT_EQ(c.out(1, 7, 2, 0), 0.0F);
      EXPECT_EQ(c.rows.sum(1, 2, 7), 0.0F);
      EXPECT_EQ(c.rows.shift(1, 2, 7), -kInfinity);
      EXPECT_EQ(c.d_k(0, 140, 1, 0), 0.0F);
      EXPECT_EQ(c.score_gradients.d_bias.view(0, 0, 3, 140), 0.0F);
    });
  }
}

TEST(ScoreKernel, NanInAVisibleBiasIsNanInItsRowAndNowhereElse) {
  for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::sigmoid}) {
    for (const float probability : {0.0F, 0.9F}) {
      AttentionCase c(kSizes, Layout::bthd, 3);
      ScoreTensors tensors(c, 5);
      tensors.use_bias(2, 4);
      tensors.bias()(1, 2, 9, 4) = kNan;
      tensors.bias()(1, 2, 8, 100) = kNan;  // not visible
      c.options.mask = Mask::causal();
      c.options.scores.normaliser = normaliser;
      c.options.scores.dropout.probability = probability;
      on_every_isa([&] {
        c.forward();
        for (int64_t q = 0; q < kSizes.t_q; ++q) {
          EXPECT_EQ(std::isnan(c.out(1, q, 2, 5)), q == 9) << q;
          EXPECT_FALSE(std::isnan(c.out(1, q, 1, 5)));
        }
      });
    }
  }
}

TEST(ScoreKernel, ARowWithNoVisibleKeyButASinkIsZeroWithTheSinkAsItsLogSumExp) {
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_sinks();
  c.options.mask = Mask::lengths({0, 230});
  on_every_isa([&] {
    run(c);
    Tensor sums({2, 4, kSizes.t_q});
    log_sum_exp(c.rows, sums.view<3>());
    for (int64_t head = 0; head < 4; ++head) {
      EXPECT_NEAR(sums.view<3>()(0, head, 5), c.options.scores.sinks(head), 1e-6F);
      EXPECT_EQ(c.out(0, 5, head, 0), 0.0F);
      EXPECT_EQ(c.d_q(0, 5, head, 0), 0.0F);
    }
  });
}

TEST(ScoreKernel, SinksOfAnySizeKeepTheSoftmaxRight) {
  std::vector<float> sinks{1e4F, -1e4F, 200.0F, -kInfinity};
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_sinks();
  c.options.scores.sinks = {sinks.data(), {4}};
  AttentionCase plain(kSizes, Layout::bthd, 3);
  on_every_isa([&] {
    run(c);
    run(plain);
    for (int64_t q = 0; q < kSizes.t_q; ++q) {
      EXPECT_EQ(c.out(0, q, 0, 0), 0.0F);
      EXPECT_EQ(c.out(0, q, 1, 0), plain.out(0, q, 1, 0));
      EXPECT_LT(std::abs(c.out(0, q, 2, 0)), 1e-30F);
      EXPECT_EQ(c.out(0, q, 3, 0), plain.out(0, q, 3, 0));
      EXPECT_EQ(c.d_q(0, q, 3, 0), plain.d_q(0, q, 3, 0));
    }
    EXPECT_EQ(c.score_gradients.d_sinks(1), 0.0F);
    EXPECT_EQ(c.score_gradients.d_sinks(3), 0.0F);
  });
}

// Slopes that move whole pieces out of the range of the shift 0, to both sides, and across its bounds.
TEST(ScoreKernel, BiasesThatMoveScoresFarKeepTheSoftmaxRight) {
  const std::vector<float> slopes{2.0F, 0.35F, 0.31F, -1.0F};
  AttentionCase c({.batch = 1, .t_q = 300, .t_k = 300, .heads = 4, .kv_heads = 4, .d_k = 8, .d_v = 8}, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_alibi();
  c.options.scores.alibi_slopes = {slopes.data(), {4}};
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::causal() & Mask::documents({0, 40})}) {
    c.options.mask = mask;
    const ReferenceResult expected = reference_result(c);
    on_every_isa([&] {
      run(c);
      // A score of 430 in base 2 is rounded to 430 · 2^-24.
      EXPECT_LE(relative_error(values_of(c.out), expected.out), 4e-5);
      EXPECT_LE(relative_error(values_of(c.d_q), expected.d_q, 0.1 * expected.d_q_terms), 1e-4);
      EXPECT_LE(relative_error(values_of(c.d_v), expected.d_v), 1e-4);
      EXPECT_LE(
          relative_error(values_of(c.score_gradients.d_alibi_slopes), expected.d_slopes, 0.1 * expected.slope_terms),
          1e-4);
    });
  }
}

TEST(ScoreKernel, LargeScoresAreCappedAndLargeBiasesKeepTheirSoftmax) {
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  tensors.use_bias(1, 4);
  c.options.scores.soft_cap = 30.0F;
  c.options.scale = 1e30F;
  for (int64_t q = 0; q < kSizes.t_q; ++q) {
    for (int64_t k = 0; k < kSizes.t_k; ++k) tensors.bias()(0, 1, q, k) = (k == q ? 0.5F : -1.0F) * 1e37F;
  }
  on_every_isa([&] {
    c.forward();
    for (int64_t q = 0; q < kSizes.t_q; ++q) {
      EXPECT_EQ(c.out(1, q, 1, 3), c.v(1, q, 0, 3));
      EXPECT_TRUE(std::isfinite(c.out(1, q, 0, 3)));
    }
  });
}

// Weights are all 1/T, values and d_out are unit vectors: out shows forward's mask and d_v backward's.
TEST(ScoreKernel, DropoutDrawsTheSameMaskInBothPasses) {
  constexpr int64_t kLength = 210;
  AttentionCase c({.batch = 2, .t_q = kLength, .t_k = kLength, .heads = 2, .kv_heads = 2, .d_k = 1, .d_v = kLength},
                  Layout::bthd, 1);
  Dropout& dropout = c.options.scores.dropout;
  dropout = {0.4F, 3, 4, 5, {}};
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t t = 0; t < kLength; ++t) {
      for (int64_t head = 0; head < 2; ++head) {
        c.q(b, t, head, 0) = 0.0F;
        for (int64_t d = 0; d < kLength; ++d) c.v(b, t, head, d) = c.d_out(b, t, head, d) = t == d ? 1.0F : 0.0F;
      }
    }
  }
  on_every_isa([&] {
    run(c);
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t head = 0; head < 2; ++head) {
        for (int64_t i = 0; i < kLength; ++i) {
          const DropoutRow row = dropout_row(dropout_head(dropout, b, head), i);
          for (int64_t j = 0; j < kLength; ++j) {
            const bool keeps = dropout_bits(row, j) >= dropout_threshold(dropout);
            ASSERT_NEAR(c.out(b, i, head, j), keeps ? 1.0 / (0.6 * kLength) : 0.0, 1e-8) << i << ", " << j;
            ASSERT_NEAR(c.d_v(b, j, head, i), keeps ? 1.0 / (0.6 * kLength) : 0.0, 1e-8) << i << ", " << j;
          }
        }
      }
    }
  });
}

TEST(ScoreKernel, PositionsComeFromTheMaskUnlessTheyAreGiven) {
  AttentionSizes sizes = kSizes;
  sizes.t_q = 100;
  const auto out_with = [&](const Mask& mask, const QueryPositions& positions) {
    AttentionCase c(sizes, Layout::bthd, 3);
    ScoreTensors tensors(c, 5);
    tensors.use_alibi();
    c.options.mask = mask;
    c.options.scores.positions = positions;
    c.forward();
    return values_of(c.out);
  };
  const Mask mask = Mask::causal(QueryPositions::bottom_right());
  EXPECT_TRUE(same_bits(out_with(mask, {}), out_with(mask, QueryPositions::from(130))));
  EXPECT_FALSE(same_bits(out_with(mask, {}), out_with(mask, QueryPositions::from(0))));
  const Mask by_item = Mask::causal(QueryPositions::from(std::vector<int64_t>{130, 60}));
  EXPECT_TRUE(same_bits(out_with(by_item, {}), out_with(by_item, QueryPositions::from(std::vector<int64_t>{130, 60}))));
}

TEST(ScoreKernel, GradientsThatAreNotAskedForLeaveTheOthersAsTheyAre) {
  AttentionCase c(kSizes, Layout::bthd, 3);
  ScoreTensors tensors(c, 5);
  option_cases().back().use(c, tensors);
  const AttentionResults all = run(c);
  c.score_gradients = {};
  const AttentionResults some = run(c);
  EXPECT_TRUE(same_bits(all.d_q, some.d_q));
  EXPECT_TRUE(same_bits(all.d_k, some.d_k));
  EXPECT_TRUE(same_bits(all.d_v, some.d_v));
}

}  // namespace
}  // namespace heed::test
