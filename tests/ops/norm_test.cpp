// norm_forward and norm_backward against the plain reference in double.
#include "heed/ops/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/numeric_gradient.h"
#include "tests/support/reference_norm.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms};
constexpr double kEps = 1e-5;

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

// A norm of [rows, width] with everything that it can have.
struct Case {
  Case(NormKind which, int64_t n, int64_t c, Layout layout = Layout::rows)
      : kind(which),
        rows(n),
        width(c),
        x(n, c, layout, 1),
        residual(n, c, layout, 2),
        gamma(1, c, Layout::rows, 3),
        beta(1, c, Layout::rows, 4),
        d_y(n, c, layout, 5),
        d_sum(n, c, layout, 6),
        y(n, c, layout, 7),
        sum(n, c, layout, 8),
        mean(1, n),
        rstd(1, n) {}

  NormOptions options() const { return {.kind = kind, .eps = static_cast<float>(kEps)}; }
  NormInputs inputs() const { return {x.view(), residual.view(), gamma.view()[0], beta.view()[0]}; }
  NormOutputs outputs() { return {y.view(), sum.view(), mean.view()[0], rstd.view()[0]}; }
  void forward() { norm_forward(inputs(), outputs(), options()); }
  NormSaved saved() const { return {kind, sum.view(), gamma.view()[0], mean.view()[0], rstd.view()[0]}; }

  // Row i of s, and of g, in double.
  std::vector<double> s(int64_t i) const {
    std::vector<double> values;
    for (int64_t j = 0; j < width; ++j) values.push_back(static_cast<double>(x.view()(i, j) + residual.view()(i, j)));
    return values;
  }
  std::vector<double> g(int64_t i) const {
    std::vector<double> values;
    for (int64_t j = 0; j < width; ++j) values.push_back(at(d_y, i, j) * at(gamma, 0, j));
    return values;
  }
  ReferenceNormRow<double> reference(int64_t i) const { return reference_norm<double>(kind, s(i), kEps); }

  NormKind kind;
  int64_t rows, width;
  Matrix x, residual, gamma, beta, d_y, d_sum, y, sum, mean, rstd;
};

TEST(Norm, ReferenceGradientIsTheSlopeOfTheReference) {
  for (const NormKind kind : kKinds) {
    std::vector<double> s = to_double(Matrix(1, 7, Layout::rows, 1).view());
    const std::vector<double> g = to_double(Matrix(1, 7, Layout::rows, 2).view());
    const std::vector<double> expected = numeric_gradient(s, [&] {
      const std::vector<double> normed = reference_norm<double>(kind, s, kEps).normed;
      return std::inner_product(g.begin(), g.end(), normed.begin(), 0.0);
    });
    const std::vector<double> got = reference_norm_backward<double>(kind, reference_norm<double>(kind, s, kEps), g);
    for (size_t j = 0; j < s.size(); ++j) EXPECT_NEAR(got[j], expected[j], 1e-8);
  }
}

TEST(Norm, ForwardMatchesDouble) {
  on_every_isa([] {
    for (const NormKind kind : kKinds) {
      for (const Layout layout : {Layout::rows, Layout::padded_rows, Layout::reversed}) {
        for (const int64_t width : {1, 3, 16, 33, 63, 100, 257}) {
          Case c(kind, 5, width, layout);
          c.forward();
          c.y.expect_guards();
          c.sum.expect_guards();
          for (int64_t i = 0; i < 5; ++i) {
            const ReferenceNormRow<double> row = c.reference(i);
            ASSERT_NEAR(at(c.mean, 0, i), row.mean, 1e-6);
            ASSERT_NEAR(at(c.rstd, 0, i) / row.rstd, 1.0, 1e-6);
            for (int64_t j = 0; j < width; ++j) {
              const double expected = row.normed[static_cast<size_t>(j)] * at(c.gamma, 0, j) + at(c.beta, 0, j);
              ASSERT_EQ(c.sum.view()(i, j), c.x.view()(i, j) + c.residual.view()(i, j));
              ASSERT_NEAR(at(c.y, i, j), expected, 1e-5);
            }
          }
        }
      }
    }
  });
}

TEST(Norm, BackwardAddsParameterGradientsAndWritesOrAddsThoseOfTheInputs) {
  on_every_isa([] {
    for (const NormKind kind : kKinds) {
      for (const int64_t width : {1, 3, 16, 33, 100, 257}) {
        for (const bool add : {false, true}) {
          Case c(kind, 2 * kNormBlockRows + 3, width, Layout::padded_rows);
          c.forward();
          Matrix d_x(c.rows, width, Layout::padded_rows, 9), d_residual(c.rows, width, Layout::rows, 10);
          Matrix d_gamma(1, width, Layout::rows, 11), d_beta(1, width, Layout::rows, 12);
          const Matrix x_before = d_x, residual_before = d_residual;
          std::vector<double> gamma = to_double(d_gamma.view()), beta = to_double(d_beta.view());
          norm_backward(c.saved(), c.d_y.view(), c.d_sum.view(),
                        {{d_x.view(), add}, {d_residual.view(), !add}, d_gamma.view()[0], d_beta.view()[0]});
          d_x.expect_guards();
          for (int64_t i = 0; i < c.rows; ++i) {
            const ReferenceNormRow<double> row = c.reference(i);
            const std::vector<double> d_s = reference_norm_backward<double>(kind, row, c.g(i));
            for (int64_t j = 0; j < width; ++j) {
              const auto column = static_cast<size_t>(j);
              const double expected = at(c.d_sum, i, j) + d_s[column];
              const double tolerance = 1e-5 * (1.0 + row.rstd);
              ASSERT_NEAR(at(d_x, i, j), expected + (add ? at(x_before, i, j) : 0.0), tolerance);
              ASSERT_NEAR(at(d_residual, i, j), expected + (add ? 0.0 : at(residual_before, i, j)), tolerance);
              gamma[column] += at(c.d_y, i, j) * row.normed[column];
              beta[column] += at(c.d_y, i, j);
            }
          }
          for (int64_t j = 0; j < width; ++j) {
            ASSERT_NEAR(at(d_gamma, 0, j), gamma[static_cast<size_t>(j)], 1e-4);
            ASSERT_NEAR(at(d_beta, 0, j), beta[static_cast<size_t>(j)], 1e-4);
          }
        }
      }
    }
  });
}

TEST(Norm, WithoutResidualGammaAndBeta) {
  on_every_isa([] {
    for (const NormKind kind : kKinds) {
      Case c(kind, 4, 37);
      norm_forward({.x = c.x.view()}, {.y = c.y.view(), .mean = c.mean.view()[0], .rstd = c.rstd.view()[0]},
                   c.options());
      Matrix d_x(4, 37);
      norm_backward({kind, c.x.view(), {}, c.mean.view()[0], c.rstd.view()[0]}, c.d_y.view(), {}, {.x = d_x.view()});
      for (int64_t i = 0; i < 4; ++i) {
        const std::vector<double> x = to_double(c.x.view().slice(0, i, 1));
        const std::vector<double> d_y = to_double(c.d_y.view().slice(0, i, 1));
        const ReferenceNormRow<double> row = reference_norm<double>(kind, x, kEps);
        const std::vector<double> expected = reference_norm_backward<double>(kind, row, d_y);
        for (int64_t j = 0; j < 37; ++j) {
          ASSERT_NEAR(at(c.y, i, j), row.normed[static_cast<size_t>(j)], 1e-5);
          ASSERT_NEAR(at(d_x, i, j), expected[static_cast<size_t>(j)], 1e-5);
        }
      }
    }
  });
}

TEST(Norm, ComputesOnlyTheGradientsAskedFor) {
  Case c(NormKind::layer, 70, 20);
  c.forward();
  Matrix d_beta(1, 20, Layout::rows, 1), d_x(70, 20), alone(70, 20), other_beta(1, 20, Layout::rows, 1);
  norm_backward(c.saved(), c.d_y.view(), {}, {.beta = d_beta.view()[0]});
  norm_backward(c.saved(), c.d_y.view(), {}, {.x = alone.view()});
  norm_backward(c.saved(), c.d_y.view(), {}, {.x = d_x.view(), .beta = other_beta.view()[0]});
  expect_same_bits<2>(d_beta.view(), other_beta.view());
  expect_same_bits<2>(alone.view(), d_x.view());
}

// Rows far from 0, where Σ s² / C - mean² would lose everything.
TEST(Norm, ALargeMeanCostsNoAccuracy) {
  on_every_isa([] {
    Case c(NormKind::layer, 3, 500);
    for (int64_t j = 0; j < 500; ++j) c.x.view()(1, j) += 10000.0F;
    norm_forward({.x = c.x.view()}, {.y = c.y.view()}, c.options());
    const std::vector<double> x = to_double(c.x.view().slice(0, 1, 1));
    const ReferenceNormRow<double> row = reference_norm<double>(NormKind::layer, x, kEps);
    // The mean is rounded to a float once: half an ulp of 10,000 is 5e-4.
    for (int64_t j = 0; j < 500; ++j) ASSERT_NEAR(at(c.y, 1, j), row.normed[static_cast<size_t>(j)], 6e-4);
  });
}

TEST(Norm, AConstantRowGivesBeta) {
  on_every_isa([] {
    for (const int64_t width : {1, 7, 100, 1000}) {
      Case c(NormKind::layer, 1, width);
      for (int64_t j = 0; j < width; ++j) c.x.view()(0, j) = 12345.678F;
      norm_forward({c.x.view(), {}, c.gamma.view()[0], c.beta.view()[0]}, {.y = c.y.view()});
      expect_same_bits<2>(c.y.view(), c.beta.view());
    }
  });
}

TEST(Norm, EpsilonIsThatOfPyTorchUnlessSet) {
  const float zeros[4] = {};
  float y[4];
  float rstd = 0.0F;
  const auto rstd_of = [&](const NormOptions& options) {
    norm_forward({.x = {zeros, {1, 4}}}, {.y = {y, {1, 4}}, .rstd = {&rstd, {1}}}, options);
    return rstd;
  };
  EXPECT_EQ(rstd_of({}), 1.0F / std::sqrt(1e-5F));
  EXPECT_EQ(rstd_of({.kind = NormKind::rms}), 1.0F / std::sqrt(0x1p-23F));
  EXPECT_EQ(rstd_of({.kind = NormKind::rms, .eps = 4.0F}), 0.5F);
}

TEST(Norm, SameBitsForAnyNumberOfThreadsAloneAndInPlace) {
  on_every_isa([] {
    for (const NormKind kind : kKinds) {
      Case c(kind, 200, 131);
      c.forward();
      Matrix d_x(200, 131), d_gamma(1, 131), d_beta(1, 131);
      const NormGradients gradients{d_x.view(), {}, d_gamma.view()[0], d_beta.view()[0]};
      norm_backward(c.saved(), c.d_y.view(), c.d_sum.view(), gradients);
      {
        const Threads threads(3);
        Case again(kind, 200, 131);
        // y over x, the sum over the residual, d_x over d_sum.
        norm_forward(again.inputs(), {again.x.view(), again.residual.view(), c.mean.view()[0], c.rstd.view()[0]},
                     again.options());
        expect_same_bits<2>(again.x.view(), c.y.view());
        expect_same_bits<2>(again.residual.view(), c.sum.view());
        Matrix other_gamma(1, 131), other_beta(1, 131);
        norm_backward(c.saved(), again.d_y.view(), again.d_sum.view(),
                      {again.d_sum.view(), {}, other_gamma.view()[0], other_beta.view()[0]});
        expect_same_bits<2>(again.d_sum.view(), d_x.view());
        expect_same_bits<2>(other_gamma.view(), d_gamma.view());
        expect_same_bits<2>(other_beta.view(), d_beta.view());
      }
      Matrix row(1, 131);
      norm_forward({c.x.view().slice(0, 17, 1), c.residual.view().slice(0, 17, 1), c.gamma.view()[0], c.beta.view()[0]},
                   {.y = row.view()}, c.options());
      expect_same_bits<2>(row.view(), c.y.view().slice(0, 17, 1));
      norm_backward({kind, c.sum.view().slice(0, 17, 1), c.gamma.view()[0], c.mean.view()[0].slice(0, 17, 1),
                     c.rstd.view()[0].slice(0, 17, 1)},
                    c.d_y.view().slice(0, 17, 1), c.d_sum.view().slice(0, 17, 1), {.x = row.view()});
      expect_same_bits<2>(row.view(), d_x.view().slice(0, 17, 1));
    }
  });
}

TEST(Norm, NanStaysInItsRow) {
  on_every_isa([] {
    for (const NormKind kind : kKinds) {
      Case c(kind, 3, 21);
      c.x.view()(1, 20) = std::numeric_limits<float>::quiet_NaN();
      c.forward();
      for (int64_t j = 0; j < 21; ++j) {
        EXPECT_TRUE(std::isnan(c.y.view()(1, j)));
        EXPECT_TRUE(std::isfinite(c.y.view()(0, j)) && std::isfinite(c.y.view()(2, j)));
      }
    }
  });
}

TEST(Norm, NoRowsOrColumns) {
  for (const Shape<2>& shape : {Shape<2>{0, 5}, {3, 0}, {0, 0}}) {
    Case c(NormKind::layer, shape[0], shape[1]);
    c.forward();
    Matrix d_x(shape[0], shape[1]), d_gamma(1, shape[1], Layout::rows, 1);
    const Matrix before = d_gamma;
    norm_backward(c.saved(), c.d_y.view(), {}, {.x = d_x.view(), .gamma = d_gamma.view()[0]});
    expect_same_bits<2>(d_gamma.view(), before.view());
  }
}

TEST(Norm, AllocatesNothingAfterTheFirstCallWithAnArena) {
  Case c(NormKind::layer, 300, 64);
  Arena arena;
  Matrix d_x(300, 64), d_gamma(1, 64);
  const auto call = [&] {
    c.forward();
    norm_backward(c.saved(), c.d_y.view(), {}, {.x = d_x.view(), .gamma = d_gamma.view()[0]}, &arena);
  };
  call();
  const int64_t allocations = allocation_count();
  call();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(Norm, RefusesWhatDoesNotFit) {
  Case c(NormKind::layer, 7, 5);
  Matrix wrong(5, 7), strided(7, 5, Layout::strided);
  const auto refused = [&](const NormInputs& inputs, const NormOutputs& outputs, const NormOptions& options,
                           const char* rule) {
    expect_error([&] { norm_forward(inputs, outputs, options); }, {"norm_forward: ", rule});
  };
  refused(c.inputs(), {.y = wrong.view()}, {}, "y has shape [5, 7], expected [7, 5]");
  refused({.x = strided.view()}, {.y = c.y.view()}, {}, "contiguous");
  refused({.x = c.x.view(), .gamma = wrong.view()[0]}, {.y = c.y.view()}, {}, "gamma has 7 values, expected 5");
  refused({.x = c.x.view()}, {.y = c.y.view(), .sum = c.sum.view()}, {}, "a sum but no residual");
  refused(c.inputs(), {.y = c.y.view(), .sum = c.y.view()}, {}, "shares memory with sum");
  refused(c.inputs(), {.y = c.y.view(), .rstd = wrong.view()[0].slice(0, 0, 3)}, {}, "rstd has 3 values for 7 rows");
  refused(c.inputs(), {.y = c.y.view()}, {.eps = -1.0F}, "eps is -1");

  c.forward();
  Matrix d_x(7, 5);
  const auto backward_refused = [&](const NormSaved& saved, View<const float, 2> d_y, const NormGradients& gradients,
                                    const char* rule) {
    expect_error([&] { norm_backward(saved, d_y, {}, gradients); }, {"norm_backward: ", rule});
  };
  backward_refused(c.saved(), wrong.view(), {.x = d_x.view()}, "d_y has shape [5, 7], expected [7, 5]");
  backward_refused({NormKind::layer, c.sum.view(), {}, {}, c.rstd.view()[0]}, c.d_y.view(), {.x = d_x.view()},
                   "mean is null; keep it in norm_forward");
  backward_refused({NormKind::rms, c.sum.view()}, c.d_y.view(), {.x = d_x.view()},
                   "rstd is null; keep it in norm_forward");
  backward_refused(c.saved(), c.d_y.view(), {.x = d_x.view(), .residual = d_x.view()},
                   "the gradient of the residual of shape [7, 5] shares memory with the gradient of x");
  backward_refused(c.saved(), c.d_y.view(), {.x = wrong.view()}, "the gradient of x has shape [5, 7]");
}

}  // namespace
}  // namespace heed::test
