#include "heed/explain/steps.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/attention/reference.h"
#include "tests/support/draw.h"
#include "tests/support/expect_error.h"

namespace heed::explain {
namespace {

Matrices matrix(std::initializer_list<std::initializer_list<double>> rows) {
  Matrices result(1, static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.begin()->size()));
  auto at = result.values.begin();
  for (const auto& row : rows) at = std::copy(row.begin(), row.end(), at);
  return result;
}

Matrices random_matrices(int64_t count, int64_t rows, int64_t columns, uint64_t seed) {
  Matrices result(count, rows, columns);
  std::vector<float> values(result.values.size());
  Rng(seed).fill_normal(values);
  std::copy(values.begin(), values.end(), result.values.begin());
  return result;
}

void expect_close(const Matrices& got, const Matrices& expected, double tolerance = 1e-12) {
  ASSERT_TRUE(got.same_shape(expected)) << to_text(got.shape()) << " against " << to_text(expected.shape());
  for (size_t n = 0; n < got.values.size(); ++n)
    EXPECT_NEAR(got.values[n], expected.values[n], tolerance) << "at " << n;
}

// One head against the plain reference of the attention contract, on [1, T, H, D] views of the same numbers.
struct ReferenceCase {
  StepRules rules;
  StepValues given;
  Mask mask;
};

// [count, rows, columns] → [1, rows, count, columns]
std::vector<double> as_bthd(const Matrices& matrices) {
  std::vector<double> values;
  for (int64_t i = 0; i < matrices.rows; ++i) {
    for (int64_t h = 0; h < matrices.count; ++h) {
      for (int64_t j = 0; j < matrices.columns; ++j) values.push_back(matrices.at(h, i, j));
    }
  }
  return values;
}

Matrices reference_heads(const ReferenceCase& test) {
  const Matrices& q = test.given[AttentionStep::q];
  const Matrices& k = test.given[AttentionStep::k];
  const Matrices& v = test.given[AttentionStep::v];
  const std::vector<double> q_values = as_bthd(q);
  const std::vector<double> k_values = as_bthd(k);
  const std::vector<double> v_values = as_bthd(v);
  const auto view = [](const std::vector<double>& values, const Matrices& m) {
    return View<const double, 4>(values.data(), {1, m.rows, m.count, m.columns});
  };
  reference::Inputs<double> in{view(q_values, q),
                               view(k_values, k),
                               view(v_values, v),
                               test.mask,
                               1.0 / std::sqrt(static_cast<double>(q.columns)),
                               {},
                               {}};
  if (test.rules.soft_cap) in.options.soft_cap = static_cast<float>(*test.rules.soft_cap);
  in.options.normaliser = test.rules.normaliser;
  const Matrices& bias = test.rules.bias;
  if (!bias.empty()) {
    in.parameters.bias = View<const double, 4>(bias.values.data(), {1, bias.count, bias.rows, bias.columns});
  }
  if (!test.rules.sinks.empty()) {
    in.parameters.sinks = View<const double, 1>(test.rules.sinks.data(), {test.rules.heads});
  }
  std::vector<double> out(static_cast<size_t>(q.rows * q.count * v.columns));
  reference::forward<double>(in, View<double, 4>(out.data(), {1, q.rows, q.count, v.columns}));
  Matrices heads(q.count, q.rows, v.columns);
  for (int64_t i = 0; i < heads.rows; ++i) {
    for (int64_t h = 0; h < heads.count; ++h) {
      for (int64_t d = 0; d < heads.columns; ++d) {
        heads.at(h, i, d) = out[static_cast<size_t>((i * heads.count + h) * heads.columns + d)];
      }
    }
  }
  return heads;
}

TEST(Steps, AgreeWithThePlainReferenceForEveryOption) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    test::Draw draw(seed);
    ReferenceCase test;
    StepRules& rules = test.rules;
    rules.kv_heads = draw.between(1, 3);
    rules.heads = rules.kv_heads * draw.between(1, 2);
    const int64_t t_q = draw.between(1, 5);
    const int64_t t_k = draw.between(1, 6);
    test.given[AttentionStep::q] = random_matrices(rules.heads, t_q, 3, seed * 10 + 1);
    test.given[AttentionStep::k] = random_matrices(rules.kv_heads, t_k, 3, seed * 10 + 2);
    test.given[AttentionStep::v] = random_matrices(rules.kv_heads, t_k, 2, seed * 10 + 3);
    if (draw.chance(2)) rules.soft_cap = 2.0;
    if (draw.chance(2)) {
      rules.bias = random_matrices(draw.chance(2) ? 1 : rules.heads, t_q, t_k, seed * 10 + 4);
      if (draw.chance(2)) rules.bias.values.front() = -std::numeric_limits<double>::infinity();
    }
    if (draw.chance(3)) rules.normaliser = Normaliser::sigmoid;
    if (rules.normaliser == Normaliser::softmax && draw.chance(2)) {
      rules.sinks = random_matrices(1, 1, rules.heads, seed * 10 + 5).values;
    }
    if (draw.chance(2)) {
      test.mask = Mask::causal(draw.chance(2) ? QueryPositions::top_left() : QueryPositions::bottom_right());
      rules.visible = Matrices(1, t_q, t_k);
      for (int64_t i = 0; i < t_q; ++i) {
        for (int64_t j = 0; j < t_k; ++j) {
          rules.visible.at(0, i, j) = test.mask.visible({1, rules.heads, t_q, t_k}, 0, 0, i, j) ? 1.0 : 0.0;
        }
      }
    }
    expect_close(compute_steps(rules, test.given)[AttentionStep::heads], reference_heads(test));
  }
}

TEST(Steps, ProjectionsAreRowVectorsTimesMatricesPlusBias) {
  StepValues given;
  given[AttentionStep::x] = matrix({{1.0, 2.0}});
  given[AttentionStep::w_q] = matrix({{1.0, 10.0, 100.0, 1000.0}, {2.0, 20.0, 200.0, 2000.0}});
  given[AttentionStep::b_q] = matrix({{0.5, 0.0, 0.0, -1.0}});
  StepRules rules;
  rules.heads = 2;
  rules.kv_heads = 2;
  const Matrices q = compute_step(rules, given, AttentionStep::q);
  EXPECT_EQ(q.shape(), (std::vector<int64_t>{2, 1, 2}));
  EXPECT_EQ(q.values, (std::vector<double>{5.5, 50.0, 500.0, 4999.0}));
}

TEST(Steps, KeysAndValuesComeFromTheContextWhereThereIsOne) {
  StepValues given;
  given[AttentionStep::x] = matrix({{1.0}});
  given[AttentionStep::context] = matrix({{3.0}, {4.0}});
  for (const AttentionStep weight : {AttentionStep::w_q, AttentionStep::w_k, AttentionStep::w_v})
    given[weight] = matrix({{2.0}});
  const StepValues values = compute_steps({}, given);
  EXPECT_EQ(values[AttentionStep::q].values, (std::vector<double>{2.0}));
  EXPECT_EQ(values[AttentionStep::k].values, (std::vector<double>{6.0, 8.0}));
  EXPECT_EQ(values[AttentionStep::v].values, (std::vector<double>{6.0, 8.0}));
}

TEST(Steps, AStepWithoutItsSourcesIsAbsent) {
  StepValues given;
  given[AttentionStep::scores] = matrix({{1.0, 2.0}});
  StepValues values = compute_steps({}, given);
  EXPECT_FALSE(values.has(AttentionStep::scaled));  // the scale is not known
  StepRules rules;
  rules.scale = 0.5;
  values = compute_steps(rules, given);
  EXPECT_EQ(values[AttentionStep::scaled].values, (std::vector<double>{0.5, 1.0}));
  EXPECT_TRUE(values.has(AttentionStep::weights));
  EXPECT_FALSE(values.has(AttentionStep::masked));
  EXPECT_FALSE(values.has(AttentionStep::heads));
}

TEST(Steps, ARowWithoutAVisibleKeyHasWeightsOfZero) {
  StepValues given;
  given[AttentionStep::scaled] = matrix({{1.0, 2.0}});
  StepRules rules;
  rules.visible = matrix({{0.0, 0.0}});
  for (const Normaliser each : {Normaliser::softmax, Normaliser::sigmoid}) {
    rules.normaliser = each;
    EXPECT_EQ(compute_steps(rules, given)[AttentionStep::weights].values, (std::vector<double>{0.0, 0.0}));
  }
}

TEST(Steps, LargeScoresDoNotOverflow) {
  StepValues given;
  given[AttentionStep::scaled] = matrix({{1e60, 1e60, -1e60}});
  EXPECT_EQ(compute_steps({}, given)[AttentionStep::weights].values, (std::vector<double>{0.5, 0.5, 0.0}));
}

TEST(Steps, SizesThatDoNotFitAreRefusedWithTheOneToBlame) {
  const auto blamed = [](const StepRules& rules, const StepValues& given) {
    try {
      compute_steps(rules, given);
    } catch (const StepError& error) {
      return error.step();
    }
    ADD_FAILURE() << "not refused";
    return AttentionStep::out;
  };
  StepValues given;
  given[AttentionStep::x] = matrix({{1.0, 2.0}});
  given[AttentionStep::w_q] = matrix({{1.0}});
  EXPECT_EQ(blamed({}, given), AttentionStep::w_q);
  given[AttentionStep::w_q] = matrix({{1.0, 1.0, 1.0}, {1.0, 1.0, 1.0}});
  given[AttentionStep::b_q] = matrix({{1.0}});
  EXPECT_EQ(blamed({}, given), AttentionStep::b_q);
  StepRules two_heads;
  two_heads.heads = 2;
  two_heads.kv_heads = 2;
  EXPECT_EQ(blamed(two_heads, given), AttentionStep::w_q);
  StepValues attention;
  attention[AttentionStep::q] = matrix({{1.0, 2.0}});
  attention[AttentionStep::k] = matrix({{1.0}});
  EXPECT_EQ(blamed({}, attention), AttentionStep::k);
  attention[AttentionStep::k] = matrix({{1.0, 2.0}});
  attention[AttentionStep::v] = matrix({{1.0}, {2.0}});
  EXPECT_EQ(blamed({}, attention), AttentionStep::v);
  attention[AttentionStep::q] = Matrices(1, 2000, 1);
  attention[AttentionStep::k] = Matrices(1, 2000, 1);
  test::expect_error([&] { compute_steps({}, attention); }, {"[1, 2000, 2000] numbers", "524288"});
}

TEST(Steps, FormulasNameWhatThisComputationHas) {
  StepValues given;
  given[AttentionStep::x] = matrix({{1.0, 2.0}});
  given[AttentionStep::w_q] = matrix({{1.0, 0.0}, {0.0, 1.0}});
  given[AttentionStep::b_q] = matrix({{1.0, 1.0}});
  given[AttentionStep::k] = matrix({{1.0, 2.0}});
  StepRules rules;
  rules.soft_cap = 30.0;
  rules.visible = matrix({{1.0}});
  const StepValues values = compute_steps(rules, given);
  const auto formula = [&](AttentionStep step) { return formula_of(rules, given, values, step); };
  EXPECT_EQ(formula(AttentionStep::q), "q = x W_Q + b_Q");
  EXPECT_EQ(formula(AttentionStep::k), "k, as given");
  EXPECT_EQ(formula(AttentionStep::scaled), "scaled = 0.707107 · scores");
  EXPECT_EQ(formula(AttentionStep::capped), "capped = 30 · tanh(scaled / 30)");
  EXPECT_EQ(formula(AttentionStep::masked), "masked = capped, -∞ where a key is hidden");
  EXPECT_EQ(formula(AttentionStep::weights), "weights = softmax(masked)");
}

}  // namespace
}  // namespace heed::explain
