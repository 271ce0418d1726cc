// linear_forward and linear_backward against plain sums in double.
#include "heed/ops/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/activations.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

struct LinearSizes {
  int64_t rows, inputs, outputs;
};
constexpr LinearSizes kSizes[] = {{1, 1, 1}, {7, 5, 3}, {33, 40, 65}, {64, 700, 20}};

// y = act(x Wᵀ + b) + residual, and what backward needs.
struct Case {
  explicit Case(const LinearSizes& s, Activation act = Activation::none)
      : sizes(s),
        activation(act),
        x(s.rows, s.inputs, Layout::padded_rows, 1),
        weight(s.outputs, s.inputs, Layout::rows, 2),
        bias(1, s.outputs, Layout::rows, 3),
        residual(s.rows, s.outputs, Layout::rows, 4),
        d_y(s.rows, s.outputs, Layout::rows, 5),
        z(s.rows, s.outputs),
        y(s.rows, s.outputs) {}

  LinearParameters parameters() const { return {weight.view(), nullptr, bias.view()[0]}; }
  double pre_activation(int64_t i, int64_t j) const {
    double sum = at(bias, 0, j);
    for (int64_t k = 0; k < sizes.inputs; ++k) sum += at(x, i, k) * at(weight, j, k);
    return sum;
  }
  double d_z(int64_t i, int64_t j) const { return slope_of(activation, pre_activation(i, j)) * at(d_y, i, j); }
  double scale() const { return std::sqrt(static_cast<double>(sizes.inputs * sizes.outputs * sizes.rows)); }

  void forward() {
    linear_forward(x.view(), parameters(), y.view(),
                   {.activation = activation, .residual = residual.view(), .derivative = z.view()});
  }
  LinearSaved saved() const { return {x.view(), z.view()}; }

  LinearSizes sizes;
  Activation activation;
  Matrix x, weight, bias, residual, d_y, z, y;
};

TEST(Linear, ForwardIsTheActivationOfTheProductPlusTheResidual) {
  on_every_isa([] {
    for (const LinearSizes& sizes : kSizes) {
      for (const Activation activation : kActivations) {
        Case c(sizes, activation);
        c.forward();
        for (int64_t i = 0; i < sizes.rows; ++i) {
          for (int64_t j = 0; j < sizes.outputs; ++j) {
            const double expected = activate(activation, c.pre_activation(i, j)) + at(c.residual, i, j);
            ASSERT_NEAR(at(c.y, i, j), expected, 2e-6 * std::sqrt(static_cast<double>(sizes.inputs)) * 5);
          }
        }
      }
    }
  });
}

TEST(Linear, SameBitsFusedOrNotPackedOrNot) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      Case c({33, 40, 65}, activation);
      c.forward();
      const PackedMatrix packed(c.weight.view().transposed());
      for (const LinearParameters& parameters : {c.parameters(), LinearParameters{{}, &packed, c.bias.view()[0]}}) {
        Matrix y(33, 65);
        linear_forward(c.x.view(), parameters, y.view(), {.activation = activation, .residual = c.residual.view()});
        expect_same_bits<2>(y.view(), c.y.view());
      }
    }
  });
}

TEST(Linear, BackwardAddsParameterGradientsAndWritesOrAddsThatOfTheInput) {
  on_every_isa([] {
    for (const LinearSizes& s : kSizes) {
      for (const Activation activation : kActivations) {
        Case c(s, activation);
        c.forward();
        for (const bool add : {false, true}) {
          Matrix d_x(s.rows, s.inputs, Layout::padded_rows, 6);
          Matrix d_weight(s.outputs, s.inputs, Layout::rows, 7);
          Matrix d_bias(1, s.outputs, Layout::rows, 8);
          const Matrix x_before(s.rows, s.inputs, Layout::padded_rows, 6);
          const Matrix weight_before(s.outputs, s.inputs, Layout::rows, 7);
          const Matrix bias_before(1, s.outputs, Layout::rows, 8);
          linear_backward(c.saved(), c.weight.view(), c.d_y.view(),
                          {{d_x.view(), add}, d_weight.view(), d_bias.view()[0]});
          d_x.expect_guards();
          const double tolerance = 1e-6 * c.scale();
          for (int64_t i = 0; i < s.rows; ++i) {
            for (int64_t k = 0; k < s.inputs; ++k) {
              double expected = add ? at(x_before, i, k) : 0.0;
              for (int64_t j = 0; j < s.outputs; ++j) expected += c.d_z(i, j) * at(c.weight, j, k);
              ASSERT_NEAR(at(d_x, i, k), expected, tolerance);
              if (i > 3 && s.inputs > 100) break;  // one column of the large case
            }
          }
          for (int64_t j = 0; j < s.outputs; ++j) {
            double sum = at(bias_before, 0, j);
            for (int64_t i = 0; i < s.rows; ++i) sum += c.d_z(i, j);
            ASSERT_NEAR(at(d_bias, 0, j), sum, tolerance);
            double expected = at(weight_before, j, 0);
            for (int64_t i = 0; i < s.rows; ++i) expected += c.d_z(i, j) * at(c.x, i, 0);
            ASSERT_NEAR(at(d_weight, j, 0), expected, tolerance);
          }
        }
      }
    }
  });
}

TEST(Linear, ComputesOnlyTheGradientsAskedFor) {
  Case c({7, 5, 3});
  c.forward();
  Matrix d_bias(1, 3, Layout::rows, 8);
  linear_backward(c.saved(), c.weight.view(), c.d_y.view(), {.x = {}, .bias = d_bias.view()[0]});
  double sum = at(Matrix(1, 3, Layout::rows, 8), 0, 1);
  for (int64_t i = 0; i < 7; ++i) sum += at(c.d_y, i, 1);
  EXPECT_NEAR(at(d_bias, 0, 1), sum, 1e-5);
}

TEST(Linear, SameBitsForAnyNumberOfThreadsAndAlone) {
  on_every_isa([] {
    Case c({200, 96, 130}, Activation::gelu);
    c.forward();
    const auto backward = [&](Matrix& d_x, Matrix& d_weight) {
      for (int64_t i = 0; i < 130; ++i) std::fill_n(&d_weight.view()(i, 0), 96, 0.0F);
      linear_backward(c.saved(), c.weight.view(), c.d_y.view(), {d_x.view(), d_weight.view()});
    };
    Matrix d_x(200, 96);
    Matrix d_weight(130, 96);
    backward(d_x, d_weight);
    {
      const Threads threads(3);
      Matrix again(200, 96);
      Matrix weight_again(130, 96);
      backward(again, weight_again);
      expect_same_bits<2>(again.view(), d_x.view());
      expect_same_bits<2>(weight_again.view(), d_weight.view());
    }
    Matrix row(1, 96);
    linear_backward({c.x.view().slice(0, 17, 1), c.z.view().slice(0, 17, 1)}, c.weight.view(),
                    c.d_y.view().slice(0, 17, 1), {row.view()});
    expect_same_bits<2>(row.view(), d_x.view().slice(0, 17, 1));
  });
}

TEST(Linear, AllocatesNothingAfterTheFirstCallWithAnArena) {
  Case c({70, 40, 30}, Activation::silu);
  Arena arena;
  Matrix d_x(70, 40);
  Matrix d_weight(30, 40);
  const auto call = [&] {
    linear_forward(c.x.view(), c.parameters(), c.y.view(),
                   {.activation = c.activation, .derivative = c.z.view(), .arena = &arena});
    linear_backward(c.saved(), c.weight.view(), c.d_y.view(), {d_x.view(), d_weight.view()}, &arena);
  };
  call();
  const int64_t allocations = allocation_count();
  call();
  EXPECT_EQ(allocation_count(), allocations);
}

// A sum of nothing is 0: y is act(b) + residual, and no gradient changes but d_b.
TEST(Linear, NoRowsNoInputsNoOutputs) {
  on_every_isa([] {
    for (const LinearSizes& s : {LinearSizes{0, 5, 3}, {7, 0, 3}, {7, 5, 0}, {0, 0, 0}}) {
      for (const Activation activation : kActivations) {
        Case c(s, activation);
        c.forward();
        Matrix fused(s.rows, s.outputs);
        linear_forward(c.x.view(), c.parameters(), fused.view(),
                       {.activation = activation, .residual = c.residual.view()});
        expect_same_bits<2>(fused.view(), c.y.view());
        for (int64_t i = 0; i < s.rows; ++i) {
          for (int64_t j = 0; j < s.outputs; ++j) {
            ASSERT_NEAR(at(c.y, i, j), activate(activation, at(c.bias, 0, j)) + at(c.residual, i, j), 1e-6);
          }
        }
        for (const bool add : {false, true}) {
          Matrix d_x(s.rows, s.inputs, Layout::rows, 6), d_weight(s.outputs, s.inputs, Layout::rows, 7);
          Matrix d_bias(1, s.outputs, Layout::rows, 8);
          const Matrix x_before = d_x, bias_before = d_bias;
          linear_backward(c.saved(), c.weight.view(), c.d_y.view(),
                          {{d_x.view(), add}, d_weight.view(), d_bias.view()[0]});
          // Of these sizes, only d_x without outputs has elements, and d_b.
          for (int64_t i = 0; i < s.rows; ++i) {
            for (int64_t k = 0; k < s.inputs; ++k) ASSERT_EQ(at(d_x, i, k), add ? at(x_before, i, k) : 0.0);
          }
          for (int64_t j = 0; j < s.outputs; ++j) {
            double sum = at(bias_before, 0, j);
            for (int64_t i = 0; i < s.rows; ++i) sum += c.d_z(i, j);
            ASSERT_NEAR(at(d_bias, 0, j), sum, 1e-5);
          }
          if (s.rows == 0) {
            const Matrix weight_before(s.outputs, s.inputs, Layout::rows, 7);
            expect_same_bits<2>(d_weight.view(), weight_before.view());
          }
        }
      }
    }
  });
}

TEST(Linear, RefusalsNameTheLinearMap) {
  Case c({7, 5, 3});
  Matrix wrong(6, 6);
  const auto refused = [&](View<const float, 2> x, const LinearParameters& parameters, View<float, 2> y,
                           const LinearOptions& options, const std::string& rule) {
    expect_error("linear_forward", [&] { linear_forward(x, parameters, y, options); }, {rule});
  };
  const PackedMatrix packed(c.weight.view().transposed());
  for (const LinearParameters& p : {c.parameters(), LinearParameters{{}, &packed, c.bias.view()[0]}}) {
    refused(wrong.view(), p, c.y.view(), {}, "x has shape [6, 6], but the weight [3, 5] takes width 5");
    refused(c.x.view(), p, wrong.view(), {}, "y has shape [6, 6], expected [7, 3]");
    refused(c.x.view(), p, c.y.view(), {.residual = wrong.view()}, "residual has shape [6, 6], expected [7, 3]");
    refused({nullptr, {7, 5}}, p, c.y.view(), {}, "x is a null view of shape [7, 5]");
    LinearParameters other = p;
    other.bias = wrong.view()[0];
    refused(c.x.view(), other, c.y.view(), {}, "bias has 6 values for 3 outputs");
  }
  refused(c.x.view(), {{nullptr, {3, 5}}}, c.y.view(), {}, "weight is a null view of shape [3, 5]");
  Matrix d_x(7, 5);
  expect_error("linear_backward",
               [&] {
                 linear_backward(c.saved(), c.weight.view(), {nullptr, {7, 3}}, {d_x.view()});
               },
               {"d_y is a null view of shape [7, 3]"});
  expect_error("linear_backward",
               [&] {
                 linear_backward(c.saved(), {nullptr, {3, 5}}, c.d_y.view(), {d_x.view()});
               },
               {"weight is a null view of shape [3, 5]"});
}

TEST(Linear, RefusesWhatDoesNotFit) {
  Case c({7, 5, 3}, Activation::relu);
  Matrix wrong(5, 7);
  Matrix d_x(7, 5);
  expect_error([&] { linear_backward(c.saved(), c.weight.view(), wrong.view(), {}); },
               {"linear_backward: ", "d_y has shape [5, 7]", "[7, 3]"});
  expect_error(
      [&] {
        linear_backward({c.x.view(), wrong.view()}, c.weight.view(), c.d_y.view(), {d_x.view()});
      },
      {"linear_backward: ", "derivative", "keep it in linear_forward"});
  expect_error([&] { linear_backward(c.saved(), c.weight.view(), c.d_y.view(), {wrong.view()}); },
               {"linear_backward: ", "gradient of x"});
  expect_error([&] { linear_backward({c.x.view()}, c.weight.view(), c.d_y.view(), {c.x.view()}); },
               {"linear_backward: ", "the gradient of x", "shares memory with x"});
  expect_error([&] { linear_forward(c.x.view(), c.parameters(), c.y.view(), {.derivative = c.y.view()}); },
               {"linear_forward: ", "derivative", "shares memory with y"});
  expect_error(
      [&] {
        linear_backward(c.saved(), c.weight.view(), c.d_y.view(), {{}, wrong.view()});
      },
      {"linear_backward: ", "gradient of the weight"});
  expect_error([&] { linear_forward(c.x.view(), c.parameters(), c.y.view(), {.derivative = wrong.view()}); },
               {"linear_forward: ", "derivative has shape [5, 7]"});
}

}  // namespace
}  // namespace heed::test
