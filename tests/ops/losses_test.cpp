// The losses of heed/ops/losses.h against plain formulas in double.
#include "heed/ops/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "heed/core/tensor.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/loss_reference.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr LossReduction kReductions[] = {LossReduction::mean, LossReduction::sum, LossReduction::none};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A loss of elements, with its options fixed.
struct ElementLossCase {
  std::string name;
  bool reduces = true;
  std::function<double(int64_t rows, int64_t columns)> divisor;
  std::function<double(double x, double target, int64_t column)> value;
  std::function<void(View<const float, 2> x, View<const float, 2> target, View<float, 2> loss)> forward;
  std::function<void(View<const float, 2> x, View<const float, 2> target, View<const float, 2> d_loss,
                     const InputGradient<2>& d_x)>
      backward;
};

// The weights of binary cross-entropy: of a column, and of its positive targets.
double column_weight(int64_t column) { return 0.5 + static_cast<double>(column % 3); }
double positive_weight(int64_t column) { return 3.0 - static_cast<double>(column % 2); }

std::vector<ElementLossCase> kl_cases() {
  std::vector<ElementLossCase> cases;
  for (const KlReduction reduction :
       {KlReduction::mean, KlReduction::batch_mean, KlReduction::sum, KlReduction::none}) {
    for (const bool log_target : {false, true}) {
      const KlOptions options{log_target, reduction};
      cases.push_back(
          {"kl_div", reduction != KlReduction::none,
           [=](int64_t rows, int64_t columns) {
             return reduction == KlReduction::mean         ? static_cast<double>(rows * columns)
                    : reduction == KlReduction::batch_mean ? static_cast<double>(rows)
                                                           : 1.0;
           },
           [=](double x, double target, int64_t) { return kl_reference(x, target, log_target); },
           [=](auto x, auto target, auto loss) { kl_div_forward(x, target, loss, options); },
           [=](auto, auto target, auto d_loss, const auto& d_x) { kl_div_backward(target, d_loss, d_x, options); }});
    }
  }
  return cases;
}

std::vector<ElementLossCase> element_loss_cases() {
  std::vector<ElementLossCase> cases = kl_cases();
  for (const LossReduction reduction : kReductions) {
    const bool reduces = reduction != LossReduction::none;
    const auto divisor = [=](int64_t rows, int64_t columns) {
      return reduction == LossReduction::mean ? static_cast<double>(rows * columns) : 1.0;
    };
    cases.push_back({"mse_loss", reduces, divisor,
                     [](double x, double target, int64_t) { return (x - target) * (x - target); },
                     [=](auto x, auto target, auto loss) { mse_loss_forward(x, target, loss, reduction); },
                     [=](auto x, auto target, auto d_loss, const auto& d_x) {
                       mse_loss_backward(x, target, d_loss, d_x, reduction);
                     }});
    for (const bool weighted : {false, true}) {
      // A row of weights for all rows, and weights of the positive targets.
      std::vector<float> weights(200), positive(200);
      for (size_t j = 0; j < weights.size(); ++j) {
        weights[j] = static_cast<float>(column_weight(static_cast<int64_t>(j)));
        positive[j] = static_cast<float>(positive_weight(static_cast<int64_t>(j)));
      }
      const auto with_options = [=](const Shape<2>& shape, const auto& call) {
        BinaryCrossEntropyOptions options{.reduction = reduction};
        if (weighted) options.weight = {weights.data(), shape, {0, 1}};
        if (weighted) options.pos_weight = {positive.data(), {shape[1]}};
        call(options);
      };
      cases.push_back({"binary_cross_entropy_with_logits", reduces, divisor,
                       [=](double x, double target, int64_t column) {
                         return binary_cross_entropy_reference(x, target, weighted ? column_weight(column) : 1.0,
                                                               weighted ? positive_weight(column) : 1.0);
                       },
                       [=](auto x, auto target, auto loss) {
                         with_options(x.shape(), [&](const BinaryCrossEntropyOptions& options) {
                           binary_cross_entropy_with_logits_forward(x, target, loss, options);
                         });
                       },
                       [=](auto x, auto target, auto d_loss, const auto& d_x) {
                         with_options(x.shape(), [&](const BinaryCrossEntropyOptions& options) {
                           binary_cross_entropy_with_logits_backward(x, target, d_loss, d_x, options);
                         });
                       }});
    }
  }
  return cases;
}

// x normal; targets in [0, 1], with 0 and 1 among them.
struct ElementData {
  ElementData(int64_t n, int64_t columns, bool reduces)
      : x(n, columns, Layout::padded_rows, 1),
        target(n, columns, Layout::reversed, 2),
        d_loss(reduces ? 1 : n, reduces ? 1 : columns, Layout::padded_rows, 3),
        loss(reduces ? 1 : n, reduces ? 1 : columns, Layout::padded_rows, 4) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        float& t = target.view()(i, j);
        t = std::min(1.0F, std::max(0.0F, 0.5F + t));
      }
    }
  }
  Matrix x, target, d_loss, loss;
};

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

constexpr Shape<2> kShapes[] = {{0, 5}, {1, 1}, {5, 3}, {4, 33}, {3, 0}};

TEST(Losses, ForwardOfElementsMatchesDouble) {
  on_every_isa([] {
    for (const ElementLossCase& loss : element_loss_cases()) {
      SCOPED_TRACE(loss.name);
      for (const Shape<2>& shape : kShapes) {
        ElementData data(shape[0], shape[1], loss.reduces);
        loss.forward(data.x.view(), data.target.view(), data.loss.view());
        data.loss.expect_guards();
        double sum = 0.0;
        for (int64_t i = 0; i < shape[0]; ++i) {
          for (int64_t j = 0; j < shape[1]; ++j) {
            const double expected = loss.value(at(data.x, i, j), at(data.target, i, j), j);
            sum += expected;
            if (loss.reduces) continue;
            ASSERT_NEAR(at(data.loss, i, j), expected, 3e-6);
          }
        }
        if (!loss.reduces) continue;
        const double expected = sum == 0.0 ? 0.0 : sum / loss.divisor(shape[0], shape[1]);
        ASSERT_NEAR(at(data.loss, 0, 0), expected, 1e-6 * std::max(1.0, std::abs(expected)));
      }
    }
  });
}

TEST(Losses, BackwardOfElementsIsTheDerivativeWrittenOrAdded) {
  on_every_isa([] {
    for (const ElementLossCase& loss : element_loss_cases()) {
      SCOPED_TRACE(loss.name);
      for (const Shape<2>& shape : kShapes) {
        ElementData data(shape[0], shape[1], loss.reduces);
        for (const bool add : {false, true}) {
          Matrix d_x(shape[0], shape[1], Layout::padded_rows, 5);
          const Matrix before = d_x;
          loss.backward(data.x.view(), data.target.view(), data.d_loss.view(), {d_x.view(), add});
          d_x.expect_guards();
          for (int64_t i = 0; i < shape[0]; ++i) {
            for (int64_t j = 0; j < shape[1]; ++j) {
              double x = at(data.x, i, j);
              const double slope = central_difference(x, [&] { return loss.value(x, at(data.target, i, j), j); });
              const double d_loss =
                  loss.reduces ? at(data.d_loss, 0, 0) / loss.divisor(shape[0], shape[1]) : at(data.d_loss, i, j);
              ASSERT_NEAR(at(d_x, i, j), slope * d_loss + (add ? at(before, i, j) : 0.0), 5e-6);
            }
          }
        }
      }
    }
  });
}

TEST(Losses, SameBitsForAnyNumberOfThreadsAloneAndInPlace) {
  on_every_isa([] {
    const std::vector<ElementLossCase> cases = element_loss_cases();
    std::vector<ElementData> results;  // x becomes d_x, in place
    for (const int count : {1, 3}) {
      const Threads threads(count);
      for (size_t n = 0; n < cases.size(); ++n) {
        SCOPED_TRACE(cases[n].name);
        ElementData data(130, 130, cases[n].reduces);
        cases[n].forward(data.x.view(), data.target.view(), data.loss.view());
        if (count == 1) {
          cases[n].backward(data.x.view(), data.target.view(), data.d_loss.view(), data.x.view());
          results.push_back(data);
          continue;
        }
        Matrix d_x(130, 130);
        cases[n].backward(data.x.view(), data.target.view(), data.d_loss.view(), d_x.view());
        expect_same_bits<2>(data.loss.view(), results[n].loss.view());
        expect_same_bits<2>(d_x.view(), results[n].x.view());
        if (cases[n].reduces) continue;
        Matrix alone(1, 130), d_alone(1, 130);
        const auto row = [](const Matrix& matrix) { return matrix.view().slice(0, 17, 1); };
        cases[n].forward(row(data.x), row(data.target), alone.view());
        expect_same_bits<2>(alone.view(), row(data.loss));
        cases[n].backward(row(data.x), row(data.target), row(data.d_loss), d_alone.view());
        expect_same_bits<2>(d_alone.view(), row(d_x));
      }
    }
  });
}

TEST(Losses, NanPassesThrough) {
  for (const ElementLossCase& loss : element_loss_cases()) {
    if (loss.reduces) continue;
    const float x[] = {kNan, 0.5F};
    const float target[] = {0.5F, kNan};
    float losses[] = {0.0F, 0.0F};
    loss.forward({x, {1, 2}}, {target, {1, 2}}, {losses, {1, 2}});
    EXPECT_TRUE(std::isnan(losses[0]) && std::isnan(losses[1])) << loss.name;
  }
}

// Where log(1 + e^x) overflows, or a form with x - x would cancel.
TEST(Losses, BinaryCrossEntropyOfLargeLogits) {
  on_every_isa([] {
    for (const float x : {-1000.0F, -80.0F, -30.0F, -17.0F, 17.0F, 30.0F, 80.0F, 1000.0F}) {
      for (const float target : {0.0F, 1.0F}) {
        const double wide = static_cast<double>(x);
        const double toward = target == 1.0F ? -wide : wide;  // the loss is softplus of it
        float loss = 0.0F, slope = 0.0F;
        const float one = 1.0F;
        binary_cross_entropy_with_logits_forward({&x, {1, 1}}, {&target, {1, 1}}, {&loss, {1, 1}});
        binary_cross_entropy_with_logits_backward({&x, {1, 1}}, {&target, {1, 1}}, {&one, {1, 1}},
                                                  View<float, 2>(&slope, {1, 1}));
        const double expected = std::max(toward, 0.0) + std::log1p(std::exp(-std::abs(wide)));
        const double expected_slope = (target == 1.0F ? -1.0 : 1.0) / (1.0 + std::exp(-toward));
        EXPECT_NEAR(static_cast<double>(loss), expected, 1e-6 * expected) << x;
        EXPECT_NEAR(static_cast<double>(slope), expected_slope, 1e-6 * std::abs(expected_slope) + 1e-37) << x;
      }
    }
  });
}

TEST(Losses, NllMatchesDoubleForwardAndBackward) {
  Tensor weight({7});
  for (size_t c = 0; c < 7; ++c) weight.values()[c] = 0.5F + static_cast<float>(c);
  for (const int64_t rows : {0, 1, 9}) {
    TensorOf<int64_t> labels({rows});
    for (int64_t i = 0; i < rows; ++i) labels.values()[static_cast<size_t>(i)] = i % 4 == 2 ? -1 : i % 7;
    for (const LossReduction reduction : kReductions) {
      for (const bool weighted : {false, true}) {
        NllOptions options{.ignore_index = -1, .reduction = reduction};
        if (weighted) options.weight = std::as_const(weight).view<1>();
        const View<const int64_t, 1> label_view = std::as_const(labels).view<1>();
        const Matrix log_probs(rows, 7, Layout::strided, 1);
        const int64_t count = reduction == LossReduction::none ? rows : 1;
        Tensor loss({count});
        nll_loss_forward(log_probs.view(), label_view, loss.view<1>(), options);
        ReferenceRows<double> wide(log_probs.view());
        const std::vector<double> expected = nll_reference(wide, label_view, options);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_NEAR(static_cast<double>(loss.values()[i]), expected[i], 1e-6 * std::max(1.0, std::abs(expected[i])));
        }
        const Matrix d_loss(1, count, Layout::rows, 2);
        const auto weighted_loss = [&] {
          double sum = 0.0;
          const std::vector<double> losses = nll_reference(wide, label_view, options);
          for (size_t i = 0; i < losses.size(); ++i) sum += losses[i] * at(d_loss, 0, static_cast<int64_t>(i));
          return sum;
        };
        for (const bool add : {false, true}) {
          Matrix d_log_probs(rows, 7, Layout::padded_rows, 3);
          const Matrix before = d_log_probs;
          nll_loss_backward(label_view, d_loss.view()[0], {d_log_probs.view(), add}, options);
          d_log_probs.expect_guards();
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < 7; ++j) {
              const double slope = central_difference(wide(i, j), weighted_loss);
              EXPECT_NEAR(at(d_log_probs, i, j), slope + (add ? at(before, i, j) : 0.0), 1e-6);
            }
          }
        }
      }
    }
  }
}

TEST(Losses, TheNllOfIgnoredRowsIsZero) {
  const float log_probs[] = {kNan, kNan};
  const int64_t label = -100;
  float loss = 5.0F;
  nll_loss_forward({log_probs, {1, 2}}, {&label, {1}}, {&loss, {1}});
  EXPECT_EQ(loss, 0.0F);
  float d_log_probs[] = {5.0F, 5.0F};
  const float one = 1.0F;
  nll_loss_backward({&label, {1}}, {&one, {1}}, View<float, 2>(d_log_probs, {1, 2}));
  EXPECT_EQ(d_log_probs[0], 0.0F);
  EXPECT_EQ(d_log_probs[1], 0.0F);
}

TEST(Losses, RefuseWhatDoesNotFit) {
  Matrix x(3, 4), other(4, 3), strided(3, 4, Layout::strided), one(1, 1);
  expect_error("mse_loss_forward", [&] { mse_loss_forward(x.view(), other.view(), one.view()); },
               {"target has shape [4, 3], expected [3, 4]"});
  expect_error("mse_loss_forward", [&] { mse_loss_forward(x.view(), x.view(), other.view()); },
               {"loss has shape [4, 3], expected [1, 1]"});
  expect_error("kl_div_forward", [&] { kl_div_forward(strided.view(), x.view(), one.view()); },
               {"log_probs has strides", "contiguous"});
  expect_error("kl_div_forward",
               [&] {
                 kl_div_forward({nullptr, {3, 4}}, x.view(), one.view());
               },
               {"log_probs is a null view"});
  expect_error("kl_div_backward", [&] { kl_div_backward(x.view(), one.view(), other.view()); },
               {"d_log_probs has shape [4, 3]"});
  expect_error("mse_loss_backward", [&] { mse_loss_backward(x.view(), strided.view(), one.view(), x.view()); },
               {"target has strides"});
  const View<const float, 1> three = std::as_const(other).view()[0];
  expect_error("binary_cross_entropy_with_logits_forward",
               [&] { binary_cross_entropy_with_logits_forward(x.view(), x.view(), one.view(), {.pos_weight = three}); },
               {"pos_weight has 3 values, expected 4"});
  const int64_t labels[] = {0, 4, 1};
  float loss = 0.0F;
  expect_error("nll_loss_forward",
               [&] {
                 nll_loss_forward(x.view(), {labels, {3}}, {&loss, {1}});
               },
               {"row 1 has label 4", "0 to 3"});
  expect_error("nll_loss_backward",
               [&] {
                 nll_loss_backward({labels, {3}}, {&loss, {1}}, x.view());
               },
               {"row 1 has label 4"});
}

}  // namespace
}  // namespace heed::test
