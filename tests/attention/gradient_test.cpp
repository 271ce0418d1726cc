// The oracle itself: the plain reference against worked examples, and its gradients against complex steps, which have
// no rounding error of a difference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <vector>

#include "heed/attention/reference.h"
#include "heed/core/rng.h"

namespace heed::test {
namespace {

using Matrix = std::vector<std::vector<double>>;

Matrix times(const Matrix& a, const Matrix& b) {
  Matrix result(a.size(), std::vector<double>(b[0].size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b[0].size(); ++j) {
      for (size_t k = 0; k < b.size(); ++k) result[i][j] += a[i][k] * b[k][j];
    }
  }
  return result;
}

std::vector<double> flat(const Matrix& a) {
  std::vector<double> values;
  for (const std::vector<double>& row : a) values.insert(values.end(), row.begin(), row.end());
  return values;
}

void expect_to_4_places(const std::vector<double>& got, const std::vector<double>& expected, const char* name) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 0.5e-4) << name << " element " << i;
}

// The layer of the notes: d = 3, one head, no biases.
const Matrix kQueryWeights{{-0.35, 0.51, 0.50}, {0.36, -0.47, -0.29}, {-0.51, -0.14, -0.56}};
const Matrix kKeyWeights{{-0.49, -0.68, 0.18}, {-0.44, -0.46, 0.18}, {0.07, -0.10, 0.44}};
const Matrix kValueWeights{{-0.41, 0.39, -0.65}, {-0.40, -0.07, -0.34}, {-0.55, -0.13, -0.29}};
const Matrix kOutputWeights{{-0.36, -0.08, 0.32}, {0.27, 0.05, 0.15}, {-0.05, -0.28, 0.05}};
const Matrix kX{{-0.1, 0.1, 0.3}, {0.4, -1.1, -0.3}};
const Matrix kContext{{-0.6, 0.3, -0.4}, {0.5, 0.9, -0.5}};

// Queries from `from`, keys and values from X.
struct Example {
  explicit Example(const Matrix& from, const Mask& mask)
      : q(flat(times(from, kQueryWeights))), k(flat(times(kX, kKeyWeights))), v(flat(times(kX, kValueWeights))) {
    const Shape<4> shape{1, 2, 1, 3};
    const reference::Inputs<double> in{
        {q.data(), shape}, {k.data(), shape}, {v.data(), shape}, mask, 1.0 / std::sqrt(3.0)};
    for (int64_t i = 0; i < 2; ++i) {
      for (const double weight : reference::score_row(in, 0, 0, i).weights) weights.push_back(weight);
    }
    reference::forward<double>(in, {heads.data(), shape});
    out = flat(times({{heads[0], heads[1], heads[2]}, {heads[3], heads[4], heads[5]}}, kOutputWeights));
  }
  std::vector<double> q, k, v;
  std::vector<double> weights, heads = std::vector<double>(6), out;
};

TEST(Reference, WorkedExampleSelf) {
  const Example self(kX, Mask());
  expect_to_4_places(self.q, {-0.0820, -0.1400, -0.2470, -0.3830, 0.7630, 0.6870}, "q");
  expect_to_4_places(self.k, {0.0260, -0.0080, 0.1320, 0.2670, 0.2640, -0.2580}, "k");
  expect_to_4_places(self.v, {-0.1640, -0.0850, -0.0560, 0.4410, 0.2720, 0.2010}, "v");
  expect_to_4_places(self.weights, {0.4944, 0.5056, 0.5220, 0.4780}, "weights");
  expect_to_4_places(self.heads, {0.1419, 0.0955, 0.0739, 0.1252, 0.0856, 0.0668}, "heads");
  expect_to_4_places(self.out, {-0.0290, -0.0273, 0.0634, -0.0253, -0.0244, 0.0562}, "out");
}

TEST(Reference, WorkedExampleMasked) {
  const Example masked(kX, Mask::causal());
  expect_to_4_places(masked.weights, {1.0, 0.0, 0.5220, 0.4780}, "weights");
  EXPECT_EQ(masked.weights[1], 0.0);
  expect_to_4_places(masked.out, {0.0389, 0.0246, -0.0680, -0.0253, -0.0244, 0.0562}, "out");
}

TEST(Reference, WorkedExampleCross) {
  const Example cross(kContext, Mask());
  expect_to_4_places(cross.weights, {0.4880, 0.5120, 0.5049, 0.4951}, "weights");
  expect_to_4_places(cross.heads, {0.1457, 0.0978, 0.0756, 0.1355, 0.0917, 0.0712}, "heads");
  expect_to_4_places(cross.out, {-0.0298, -0.0279, 0.0651, -0.0276, -0.0262, 0.0607}, "out");
}

using Complex = std::complex<double>;

constexpr int64_t kBatch = 2;
constexpr int64_t kQueries = 5;
constexpr int64_t kKeys = 7;
constexpr Shape<4> kQueryShape{kBatch, kQueries, 4, 3};
constexpr Shape<4> kKeyShape{kBatch, kKeys, 2, 3};
constexpr Shape<4> kValueShape{kBatch, kKeys, 2, 2};
constexpr Shape<4> kOutShape{kBatch, kQueries, 4, 2};
constexpr double kScale = 0.7;

std::vector<double> normal(const Shape<4>& shape, uint64_t seed) {
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    values.push_back(static_cast<double>(Rng(seed).normal(static_cast<uint64_t>(i))));
  }
  return values;
}

// q, k and v, and the weight of each output in the loss Σ d_out · out.
struct GradientProblem {
  std::array<std::vector<double>, 3> x{normal(kQueryShape, 1), normal(kKeyShape, 2), normal(kValueShape, 3)};
  std::vector<double> d_out = normal(kOutShape, 4);
  Mask mask;

  template <class T>
  reference::Inputs<T> inputs(const std::array<std::vector<T>, 3>& values) const {
    return {{values[0].data(), kQueryShape},
            {values[1].data(), kKeyShape},
            {values[2].data(), kValueShape},
            mask,
            static_cast<T>(kScale)};
  }

  // d loss / d x[which][at]: the loss is analytic, so a step i·h moves its imaginary part by h times the derivative.
  double derivative(size_t which, size_t at) const {
    constexpr double kStep = 1e-30;
    std::array<std::vector<Complex>, 3> values;
    for (size_t n = 0; n < 3; ++n) values[n].assign(x[n].begin(), x[n].end());
    values[which][at] += Complex(0.0, kStep);
    std::vector<Complex> out(d_out.size());
    reference::forward<Complex>(inputs(values), {out.data(), kOutShape});
    double loss = 0.0;
    for (size_t i = 0; i < out.size(); ++i) loss += d_out[i] * out[i].imag();
    return loss / kStep;
  }
};

TEST(Reference, GradientsAreThoseOfComplexStepsForEveryMask) {
  const auto bits = std::make_unique<bool[]>(static_cast<size_t>(kBatch * 4 * kQueries * kKeys));
  for (uint64_t i = 0; i < kBatch * 4 * kQueries * kKeys; ++i) bits[i] = Rng(5).bits(i) % 2 == 0;
  const QueryPositions last = QueryPositions::bottom_right();
  const Mask masks[] = {
      Mask(),
      Mask::causal(last),
      Mask::causal(QueryPositions::from(-2)),  // two rows see nothing
      Mask::window(2, 1, last) & Mask::lengths({7, 4}),
      Mask::documents({0, 3, 4}, last),
      Mask::keep(View<const bool, 4>(bits.get(), {kBatch, 4, kQueries, kKeys})),
  };
  for (const Mask& mask : masks) {
    SCOPED_TRACE(mask.description());
    GradientProblem problem;
    problem.mask = mask;
    std::array<std::vector<double>, 3> got;
    for (size_t n = 0; n < 3; ++n) got[n].resize(problem.x[n].size());
    reference::backward<double>(
        problem.inputs(problem.x), {problem.d_out.data(), kOutShape},
        {{got[0].data(), kQueryShape}, {got[1].data(), kKeyShape}, {got[2].data(), kValueShape}});
    for (size_t n = 0; n < 3; ++n) {
      for (size_t i = 0; i < got[n].size(); ++i) {
        const double expected = problem.derivative(n, i);
        ASSERT_NEAR(got[n][i], expected, 1e-13 * (1.0 + std::abs(expected))) << "qkv"[n] << " element " << i;
      }
    }
  }
}

TEST(Reference, LogSumExpIsTheLogOfTheSumOfVisibleExponentials) {
  const std::vector<double> q{1.0, 1.0};
  const std::vector<double> k{std::log(2.0), std::log(3.0)};
  const std::vector<double> v{10.0, 20.0};
  const Shape<4> shape{1, 2, 1, 1};
  std::vector<double> out(2);
  std::vector<double> sums(2);
  reference::forward<double>({{q.data(), shape}, {k.data(), shape}, {v.data(), shape}, Mask::causal(), 1.0},
                             {out.data(), shape}, {sums.data(), {1, 1, 2}});
  EXPECT_NEAR(sums[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(sums[1], std::log(5.0), 1e-15);
  EXPECT_NEAR(out[0], 10.0, 1e-13);
  EXPECT_NEAR(out[1], 16.0, 1e-13);
}

}  // namespace
}  // namespace heed::test
