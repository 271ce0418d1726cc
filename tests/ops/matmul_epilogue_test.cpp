// The epilogue: c = act(scale · a b + bias) + residual (+ c), in this order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/ops/matmul.h"
#include "tests/support/activations.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"

namespace heed::test {
namespace {

struct Epilogue {
  bool scaled = false;
  bool bias = false;
  Activation activation = Activation::none;
  bool residual = false;
  bool accumulate = false;
};

// Compares with the same steps in double on the product that matmul gives without an epilogue.
void expect_epilogue(const Epilogue& epilogue, Layout layout, int64_t m, int64_t n) {
  SCOPED_TRACE("activation " + std::to_string(static_cast<int>(epilogue.activation)) + ", residual " +
               std::to_string(epilogue.residual) + ", accumulate " + std::to_string(epilogue.accumulate) + ", " +
               layout_name(layout));
  const int64_t k = 300;
  const Matrix a(m, k, Layout::rows, 1);
  const Matrix b(k, n, Layout::rows, 2);
  const Matrix bias(n, 1, layout == Layout::strided ? Layout::strided : Layout::rows, 3);
  const Matrix residual(m, n, layout, 4);
  Matrix sums(m, n);
  matmul(a.view(), b.view(), sums.view());

  MatmulOptions options;
  options.scale = epilogue.scaled ? 0.125F : 1.0F;
  if (epilogue.bias) options.bias = bias.view().transposed()[0];
  options.activation = epilogue.activation;
  if (epilogue.residual) options.residual = residual.view();
  options.accumulate = epilogue.accumulate;
  const Matrix before(m, n, layout, 5);
  for (const bool packed : {false, true}) {
    Matrix c(m, n, layout, 5);
    if (packed) {
      matmul(a.view(), PackedMatrix(b.view()), c.view(), options);
    } else {
      matmul(a.view(), b.view(), c.view(), options);
    }
    c.expect_guards();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const double linear = static_cast<double>(options.scale) * static_cast<double>(sums.view()(i, j)) +
                              (epilogue.bias ? static_cast<double>(bias.view()(j, 0)) : 0.0);
        double expected = activate(epilogue.activation, linear);
        if (epilogue.residual) expected += static_cast<double>(residual.view()(i, j));
        if (epilogue.accumulate) expected += static_cast<double>(before.view()(i, j));
        ASSERT_NEAR(static_cast<double>(c.view()(i, j)), expected, 4e-6 * std::max(1.0, std::abs(linear)))
            << i << " " << j << " of " << linear;
      }
    }
  }
}

TEST(MatmulEpilogue, ScaleBiasActivationResidualAccumulateInThisOrder) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      for (const Layout layout : kLayouts) {
        for (int bits = 0; bits < 16; ++bits) {
          const Epilogue epilogue{(bits & 1) != 0, (bits & 2) != 0, activation, (bits & 4) != 0, (bits & 8) != 0};
          expect_epilogue(epilogue, layout, 9, 101);
          if (HasFatalFailure()) return;
        }
      }
      expect_epilogue({true, true, activation, true, false}, Layout::rows, 1, 300);
      expect_epilogue({true, true, activation, true, false}, Layout::rows, 2, 200);
    }
  });
}

// An element's bits do not depend on where in the tile it stands: full vectors and the edge do the same arithmetic.
TEST(MatmulEpilogue, EdgesHaveTheBitsOfTheMiddle) {
  on_every_isa([] {
    const int64_t k = 40;
    const Matrix a(13, k, Layout::rows, 1);
    const Matrix b(k, 96, Layout::rows, 2);
    const Matrix bias(1, 96, Layout::rows, 3);
    const Matrix residual(13, 96, Layout::rows, 4);
    for (const Activation activation : kActivations) {
      MatmulOptions options{0.7F, bias.view()[0], activation, residual.view(), true, nullptr};
      Matrix all(13, 96, Layout::rows, 5);
      matmul(a.view(), b.view(), all.view(), options);
      for (const int64_t n : {1, 3, 15, 17, 47, 90}) {
        Matrix some(13, 96, Layout::rows, 5);
        options.bias = View<const float, 1>(bias.view()[0]).slice(0, 0, n);
        options.residual = View<const float, 2>(residual.view()).slice(1, 0, n);
        matmul(a.view(), View<const float, 2>(b.view()).slice(1, 0, n), some.view().slice(1, 0, n), options);
        expect_same_bits(View<const float, 2>(some.view().slice(1, 0, n)),
                         View<const float, 2>(all.view().slice(1, 0, n)));
        if (HasFatalFailure()) return;
      }
      options.bias = bias.view()[0];
      options.residual = residual.view();
    }
  });
}

TEST(MatmulEpilogue, TheResidualMayBeTheOutput) {
  on_every_isa([] {
    const Matrix a(30, 600, Layout::rows, 1);
    const Matrix b(600, 100, Layout::rows, 2);
    const Matrix residual(30, 100, Layout::rows, 3);
    MatmulOptions options;
    options.activation = Activation::silu;
    options.residual = residual.view();
    Matrix apart(30, 100);
    matmul(a.view(), b.view(), apart.view(), options);
    Matrix in_place(30, 100, Layout::rows, 3);
    options.residual = in_place.view();
    matmul(a.view(), b.view(), in_place.view(), options);
    expect_same_bits(View<const float, 2>(in_place.view()), View<const float, 2>(apart.view()));
  });
}

TEST(MatmulEpilogue, ABatchHasBiasAndAResidualForEachItem) {
  on_every_isa([] {
    const Matrix a(4 * 6, 30, Layout::rows, 1);
    const Matrix b(4 * 30, 20, Layout::rows, 2);
    const Matrix bias(1, 20, Layout::rows, 3);
    const Matrix residual(4 * 6, 20, Layout::rows, 4);
    for (const int64_t b_stride : {int64_t{0}, int64_t{600}}) {
      BatchedMatmulOptions batched{2.0F, bias.view()[0], Activation::gelu, {residual.view().data(), {4, 6, 20}},
                                   true, nullptr};
      Matrix c(4 * 6, 20, Layout::rows, 5);
      matmul(View<const float, 3>(a.view().data(), {4, 6, 30}),
             View<const float, 3>(b.view().data(), {4, 30, 20}, {b_stride, 20, 1}),
             View<float, 3>(c.view().data(), {4, 6, 20}), batched);
      Matrix expected(4 * 6, 20, Layout::rows, 5);
      for (int64_t item = 0; item < 4; ++item) {
        const MatmulOptions options{2.0F, bias.view()[0], Activation::gelu, residual.view().slice(0, 6 * item, 6),
                                    true, nullptr};
        matmul(a.view().slice(0, 6 * item, 6), View<const float, 2>(b.view().data() + item * b_stride, {30, 20}),
               expected.view().slice(0, 6 * item, 6), options);
      }
      expect_same_bits(View<const float, 2>(c.view()), View<const float, 2>(expected.view()));
    }
  });
}

// Rows and columns, in every layout and batched: the bits of the product followed by the activation of its own.
TEST(MatmulEpilogue, KeepsTheDerivativeAndMultipliesByIt) {
  on_every_isa([] {
    const Matrix a(18, 600, Layout::rows, 1);
    const Matrix b(600, 101, Layout::rows, 2);
    const Matrix d_y(18, 101, Layout::rows, 3);
    Matrix plain(18, 101);
    matmul(a.view(), b.view(), plain.view());
    for (const Activation activation : kActivations) {
      for (const Layout layout : kLayouts) {
        Matrix c(18, 101, layout, 4), derivative(18, 101, layout, 5);
        MatmulOptions options;
        options.activation = activation;
        options.derivative = derivative.view();
        matmul(a.view(), b.view(), c.view(), options);
        Matrix expected(18, 101);
        activation_forward(activation, plain.view(), {}, expected.view());
        expect_same_bits(View<const float, 2>(c.view()), View<const float, 2>(expected.view()));

        // Times d_y, in a pass of its own and as the factor of a product that is d_y.
        Matrix kept(18, 101);
        for (int64_t i = 0; i < 18; ++i) {
          for (int64_t j = 0; j < 101; ++j) kept.view()(i, j) = derivative.view()(i, j);
        }
        activation_backward(activation, plain.view(), d_y.view(), View<float, 2>(expected.view()));
        Matrix d_z(18, 101);
        derivative_backward(kept.view(), d_y.view(), View<float, 2>(d_z.view()));
        for (int64_t i = 0; i < 18; ++i) {  // a derivative of 0 gives +0
          for (int64_t j = 0; j < 101; ++j) ASSERT_EQ(d_z.view()(i, j), expected.view()(i, j)) << i << " " << j;
        }
        Matrix one(101, 101);
        for (int64_t i = 0; i < 101; ++i) {
          for (int64_t j = 0; j < 101; ++j) one.view()(i, j) = i == j ? 1.0F : 0.0F;
        }
        options = {};
        options.factor = derivative.view();
        matmul(d_y.view(), one.view(), c.view(), options);
        for (int64_t i = 0; i < 18; ++i) {
          for (int64_t j = 0; j < 101; ++j) ASSERT_EQ(c.view()(i, j), expected.view()(i, j)) << i << " " << j;
        }
      }
    }
    const auto batch = []<class T>(View<T, 2> view) { return View<T, 3>(view.data(), {3, 6, view.size(1)}); };
    Matrix c(18, 101), derivative(18, 101), expected(18, 101);
    BatchedMatmulOptions options;
    options.activation = Activation::relu;
    options.derivative = batch(derivative.view());
    const View<const float, 3> one_b(b.view().data(), {3, 600, 101}, {0, 101, 1});
    matmul(batch(a.view()), one_b, batch(c.view()), options);
    for (int64_t i = 0; i < 18; ++i) {
      for (int64_t j = 0; j < 101; ++j) ASSERT_EQ(derivative.view()(i, j), plain.view()(i, j) > 0.0F ? 1.0F : 0.0F);
    }
  });
}

TEST(MatmulEpilogue, AFactorOfZeroGivesZeroEvenIfTheProductIsNotFinite) {
  on_every_isa([] {
    Matrix a(3, 4), c(3, 40);
    a.view()(1, 2) = std::numeric_limits<float>::infinity();
    Matrix factor(3, 40);
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 40; ++j) factor.view()(i, j) = 0.0F;
    }
    MatmulOptions options;
    options.factor = factor.view();
    matmul(a.view(), Matrix(4, 40).view(), c.view(), options);
    for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(c.view()(1, j), 0.0F);
    options.activation = Activation::relu;
    expect_error([&] { matmul(a.view(), Matrix(4, 40).view(), c.view(), options); }, {"matmul", "factor"});
  });
}

TEST(MatmulEpilogue, NanPassesThroughEveryActivation) {
  on_every_isa([] {
    Matrix a(5, 8);
    a.view()(2, 3) = std::numeric_limits<float>::quiet_NaN();
    for (const Activation activation : kActivations) {
      MatmulOptions options;
      options.activation = activation;
      Matrix c(5, 50);
      matmul(a.view(), Matrix(8, 50).view(), c.view(), options);
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 50; ++j) ASSERT_EQ(std::isnan(c.view()(i, j)), i == 2) << i << " " << j;
      }
    }
  });
}

}  // namespace
}  // namespace heed::test
