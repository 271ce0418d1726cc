// The oracle of the score options: each against its formula, and every gradient against complex steps, which have no
// rounding error of a difference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention/reference.h"
#include "heed/core/rng.h"
#include "tests/support/draw.h"

namespace heed::test {
namespace {

using Complex = std::complex<double>;

constexpr int64_t kBatch = 2;
constexpr int64_t kHeads = 4;
constexpr int64_t kQueries = 5;
constexpr int64_t kKeys = 7;
constexpr Shape<4> kQueryShape{kBatch, kQueries, kHeads, 3};
constexpr Shape<4> kKeyShape{kBatch, kKeys, 2, 3};
constexpr Shape<4> kValueShape{kBatch, kKeys, 2, 2};
constexpr Shape<4> kOutShape{kBatch, kQueries, kHeads, 2};
constexpr Shape<2> kTableShape{8, kHeads};
constexpr double kScale = 0.7;

std::vector<double> normal(int64_t count, uint64_t seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<double>(Rng(seed).normal(static_cast<uint64_t>(i))));
  }
  return values;
}

enum Part { kQ, kK, kV, kBias, kSlopes, kTable, kSinks, kParts };

// Everything that has a gradient; empty lists are options that are not used.
struct Problem {
  std::array<std::vector<double>, kParts> x{normal(element_count(kQueryShape), 1), normal(element_count(kKeyShape), 2),
                                            normal(element_count(kValueShape), 3)};
  std::vector<double> d_out = normal(element_count(kOutShape), 4);
  Shape<4> bias_shape{1, 1, kQueries, kKeys};
  Mask mask;
  ScoreOptions options;

  void use_bias(int64_t batch, int64_t heads) {
    bias_shape = {batch, heads, kQueries, kKeys};
    x[kBias] = normal(element_count(bias_shape), 5);
    x[kBias][3] = -std::numeric_limits<double>::infinity();
  }
  void use_alibi() { x[kSlopes] = {0.5, 0.25, -0.1, 0.01}; }
  void use_table(bool bidirectional) {
    x[kTable] = normal(element_count(kTableShape), 6);
    options.relative.max_distance = 6;
    options.relative.bidirectional = bidirectional;
  }
  void use_sinks() { x[kSinks] = {0.3, -2.0, 5.0, 0.0}; }

  template <class T>
  reference::ScoreParameters<T> parameters(std::array<std::vector<std::remove_const_t<T>>, kParts>& values) const {
    reference::ScoreParameters<T> result;
    if (!x[kBias].empty()) result.bias = {values[kBias].data(), bias_shape};
    if (!x[kSlopes].empty()) result.alibi_slopes = {values[kSlopes].data(), {kHeads}};
    if (!x[kTable].empty()) result.relative_table = {values[kTable].data(), kTableShape};
    if (!x[kSinks].empty()) result.sinks = {values[kSinks].data(), {kHeads}};
    return result;
  }

  template <class T>
  reference::Inputs<T> inputs(std::array<std::vector<T>, kParts>& values) const {
    return {{values[kQ].data(), kQueryShape}, {values[kK].data(), kKeyShape},
            {values[kV].data(), kValueShape}, mask,
            static_cast<T>(kScale),           options,
            parameters<const T>(values)};
  }

  // d loss / d x[which][at] of the loss Σ d_out · out: it is analytic, so a step i·h moves its imaginary part by h
  // times the derivative.
  double derivative(size_t which, size_t at) const {
    constexpr double kStep = 1e-30;
    std::array<std::vector<Complex>, kParts> values;
    for (size_t n = 0; n < kParts; ++n) values[n].assign(x[n].begin(), x[n].end());
    values[which][at] += Complex(0.0, kStep);
    std::vector<Complex> out(d_out.size());
    reference::forward<Complex>(inputs(values), {out.data(), kOutShape});
    double loss = 0.0;
    for (size_t i = 0; i < out.size(); ++i) loss += d_out[i] * out[i].imag();
    return loss / kStep;
  }

  void expect_gradients() {
    std::array<std::vector<double>, kParts> got;
    for (size_t n = 0; n < kParts; ++n) got[n].resize(x[n].size());
    reference::backward<double>(inputs(x), {d_out.data(), kOutShape},
                                {{got[kQ].data(), kQueryShape},
                                 {got[kK].data(), kKeyShape},
                                 {got[kV].data(), kValueShape},
                                 parameters<double>(got)});
    for (size_t n = 0; n < kParts; ++n) {
      for (size_t i = 0; i < got[n].size(); ++i) {
        const double expected = derivative(n, i);
        ASSERT_NEAR(got[n][i], expected, 1e-13 * (1.0 + std::abs(expected))) << "part " << n << " element " << i;
      }
    }
  }
};

TEST(ScoreReference, GradientsOfEachOptionAreThoseOfComplexSteps) {
  const auto expect = [](const char* name, auto change) {
    SCOPED_TRACE(name);
    Problem problem;
    problem.options.positions = QueryPositions::bottom_right();
    change(problem);
    problem.expect_gradients();
  };
  expect("bias", [](Problem& p) { p.use_bias(kBatch, kHeads); });
  expect("bias for all heads", [](Problem& p) { p.use_bias(kBatch, 1); });
  expect("bias for all items", [](Problem& p) { p.use_bias(1, kHeads); });
  expect("bias for all", [](Problem& p) { p.use_bias(1, 1); });
  expect("ALiBi", [](Problem& p) { p.use_alibi(); });
  expect("table", [](Problem& p) { p.use_table(true); });
  expect("one-sided table", [](Problem& p) { p.use_table(false); });
  expect("soft cap", [](Problem& p) { p.options.soft_cap = 0.8F; });
  expect("sinks", [](Problem& p) { p.use_sinks(); });
  expect("sigmoid", [](Problem& p) { p.options.normaliser = Normaliser::sigmoid; });
  expect("dropout", [](Problem& p) { p.options.dropout.probability = 0.3F; });
}

TEST(ScoreReference, GradientsOfCombinationsAreThoseOfComplexSteps) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Draw draw(seed);
    Problem problem;
    problem.options.positions = QueryPositions::from(draw.between(-3, 3));
    const QueryPositions positions = QueryPositions::from(draw.between(-2, 4));
    if (draw.chance(2)) problem.mask = Mask::causal(positions);
    if (draw.chance(3)) problem.mask = problem.mask & Mask::lengths({5, 0});
    if (draw.chance(3)) problem.mask = problem.mask & Mask::documents({0, 3}, positions);
    if (draw.chance(2)) problem.use_bias(draw.chance(2) ? 1 : kBatch, draw.chance(2) ? 1 : kHeads);
    if (draw.chance(2)) problem.use_alibi();
    if (draw.chance(2)) problem.use_table(draw.chance(2));
    if (draw.chance(2)) problem.options.soft_cap = 1.5F;
    if (draw.chance(3)) problem.options.normaliser = Normaliser::sigmoid;
    if (draw.chance(2) && problem.options.normaliser == Normaliser::softmax) problem.use_sinks();
    if (draw.chance(2)) problem.options.dropout = {0.25F, seed, 2, 3, {}};
    problem.expect_gradients();
    if (HasFatalFailure()) return;
  }
}

// One head, one query of ones at the last of three keys, values 1, 10, 100: out shows the weights.
struct Shown {
  std::vector<double> q{1.0}, k{0.5, -1.0, 2.0}, v{1.0, 10.0, 100.0}, out{0.0}, sums{0.0};
  std::vector<double> slopes{0.5}, table{0.1, 0.2, 0.3, 0.4}, bias{1.0, -1.0, 0.5}, sinks{1.5};
  reference::Inputs<double> in{
      {q.data(), {1, 1, 1, 1}}, {k.data(), {1, 3, 1, 1}}, {v.data(), {1, 3, 1, 1}}, Mask(), 1.0};

  Shown() { in.options.positions = QueryPositions::bottom_right(); }
  double run() {
    reference::forward<double>(in, {out.data(), {1, 1, 1, 1}}, {sums.data(), {1, 1, 1}});
    return out[0];
  }
};

double softmax_of(const std::vector<double>& scores, double sink = 0.0) {
  double sum = sink;
  double weighted = 0.0;
  double value = 1.0;
  for (const double score : scores) {
    sum += std::exp(score);
    weighted += value * std::exp(score);
    value *= 10.0;
  }
  return weighted / sum;
}

TEST(ScoreReference, EachOptionIsItsFormula) {
  const auto expect = [](const char* name, double expected, auto change) {
    Shown shown;
    change(shown);
    EXPECT_NEAR(shown.run(), expected, 1e-12) << name;
  };
  expect("bias", softmax_of({1.5, -2.0, 2.5}), [](Shown& s) { s.in.parameters.bias = {s.bias.data(), {1, 1, 1, 3}}; });
  expect("ALiBi", softmax_of({0.5 - 1.0, -1.0 - 0.5, 2.0}), [](Shown& s) {
    s.in.parameters.alibi_slopes = {s.slopes.data(), {1}};
  });
  expect("table", softmax_of({0.5 + 0.3, -1.0 + 0.2, 2.0 + 0.1}), [](Shown& s) {
    s.in.parameters.relative_table = {s.table.data(), {4, 1}};
    s.in.options.relative.bidirectional = false;
    s.in.options.relative.max_distance = 8;
  });
  const auto cap = [](double x) { return 2.0 * std::tanh(x / 2.0); };
  expect("cap", softmax_of({cap(0.5), cap(-1.0), cap(2.0)}), [](Shown& s) { s.in.options.soft_cap = 2.0F; });
  expect("sink", softmax_of({0.5, -1.0, 2.0}, std::exp(1.5)), [](Shown& s) {
    s.in.parameters.sinks = {s.sinks.data(), {1}};
  });
  const auto sigmoid = [](double x) { return 1.0 / (1.0 + std::exp(-x)); };
  expect("sigmoid", sigmoid(0.5) + 10.0 * sigmoid(-1.0) + 100.0 * sigmoid(2.0),
         [](Shown& s) { s.in.options.normaliser = Normaliser::sigmoid; });
}

TEST(ScoreReference, ARowWithNoVisibleKeyButASinkHasTheSinkAsItsLogSumExp) {
  Shown shown;
  shown.in.mask = Mask::lengths({0});
  shown.in.parameters.sinks = {shown.sinks.data(), {1}};
  EXPECT_EQ(shown.run(), 0.0);
  EXPECT_NEAR(shown.sums[0], 1.5, 1e-15);
}

TEST(ScoreReference, DropoutScalesWhatItKeeps) {
  Shown shown;
  shown.in.options.dropout = {0.5F, 7, 0, 0, {}};
  const DropoutRow row = dropout_row(dropout_head(shown.in.options.dropout, 0, 0), 0);
  double expected = 0.0;
  double value = 1.0;
  for (int64_t j = 0; j < 3; ++j) {
    const double weight = std::exp(shown.k[static_cast<size_t>(j)]) / (std::exp(0.5) + std::exp(-1.0) + std::exp(2.0));
    if (dropout_bits(row, j) >= (1 << 23)) expected += 2.0 * weight * value;
    value *= 10.0;
  }
  EXPECT_NEAR(shown.run(), expected, 1e-12);
}

}  // namespace
}  // namespace heed::test
