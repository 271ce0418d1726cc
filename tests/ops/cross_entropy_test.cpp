// cross_entropy_forward and cross_entropy_backward against plain sums in double.
#include "heed/ops/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/core/tensor.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/loss_reference.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr LossReduction kReductions[] = {LossReduction::mean, LossReduction::sum, LossReduction::none};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Variant {
  bool weighted = false;
  bool ignores = false;
  float smoothing = 0.0F;
};
constexpr Variant kVariants[] = {
    {}, {true, false, 0.0F}, {false, false, 0.1F}, {false, true, 0.0F}, {true, true, 0.3F}};

struct Case {
  Case(int64_t n, int64_t v, const Variant& variant = {}, Layout layout = Layout::rows)
      : rows(n), classes(v), logits(n, v, layout, 1), labels({n}), weight({v}), softmax(n, 2, Layout::padded_rows) {
    const Rng rng(2);
    for (int64_t row = 0; row < n; ++row) {
      const bool ignored = variant.ignores && row % 3 == 1;
      labels.values()[static_cast<size_t>(row)] =
          ignored ? options.ignore_index
                  : static_cast<int64_t>(rng.bits(static_cast<uint64_t>(row)) % static_cast<uint64_t>(v));
    }
    for (float& w : weight.values()) w = 0.5F + rng.uniform(static_cast<uint64_t>(&w - weight.values().data()));
    if (variant.weighted) options.weight = std::as_const(weight).view<1>();
    options.label_smoothing = variant.smoothing;
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  int64_t losses() const { return options.reduction == LossReduction::none ? rows : 1; }
  View<const int64_t, 1> label_view() const { return labels.view<1>(); }
  Tensor forward() {
    Tensor loss({losses()});
    cross_entropy_forward(logits.view(), label_view(), loss.view<1>(), options, softmax.view());
    return loss;
  }
  CrossEntropySaved saved() const { return {logits.view(), label_view(), softmax.view()}; }

  int64_t rows, classes;
  Matrix logits;
  TensorOf<int64_t> labels;
  Tensor weight;
  Matrix softmax;
  CrossEntropyOptions options;
};

// Calls test(case) for sizes, layouts, variants and reductions.
template <class Test>
void for_each_case(Test test) {
  for (const int64_t classes : {1, 3, 16, 33, 130}) {
    for (const int64_t rows : {0, 1, 7}) {
      for (const Variant& variant : kVariants) {
        for (const LossReduction reduction : kReductions) {
          Case c(rows, classes, variant, classes % 2 == 1 ? Layout::padded_rows : Layout::reversed);
          c.options.reduction = reduction;
          test(c);
        }
      }
    }
  }
}

TEST(CrossEntropy, ForwardMatchesDouble) {
  on_every_isa([] {
    for_each_case([](Case& c) {
      const Tensor loss = c.forward();
      c.softmax.expect_guards();
      const std::vector<double> expected =
          cross_entropy_reference(ReferenceRows<double>(c.logits.view()), c.label_view(), c.options);
      ASSERT_EQ(loss.values().size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(loss.values()[i]), expected[i], 5e-7 * std::max(1.0, expected[i]));
      }
    });
  });
}

TEST(CrossEntropy, BackwardIsTheDerivativeWrittenOrAdded) {
  on_every_isa([] {
    for_each_case([](Case& c) {
      if (c.rows * c.classes > 7 * 16) return;
      c.forward();
      const Matrix d_loss(1, c.losses(), Layout::rows, 5);
      ReferenceRows<double> logits(c.logits.view());
      const auto weighted_loss = [&] {
        const std::vector<double> losses = cross_entropy_reference(logits, c.label_view(), c.options);
        double sum = 0.0;
        for (size_t i = 0; i < losses.size(); ++i) sum += losses[i] * static_cast<double>(d_loss.view()(0, i));
        return sum;
      };
      ReferenceRows<double> slope(c.rows, c.classes);
      for (size_t i = 0; i < slope.values.size(); ++i) {
        slope.values[i] = central_difference(logits.values[i], weighted_loss);
      }
      for (const bool add : {false, true}) {
        Matrix d_logits(c.rows, c.classes, Layout::padded_rows, 6);
        const Matrix before = d_logits;
        cross_entropy_backward(c.saved(), d_loss.view()[0], {d_logits.view(), add}, c.options);
        d_logits.expect_guards();
        for (int64_t i = 0; i < c.rows; ++i) {
          for (int64_t j = 0; j < c.classes; ++j) {
            const double expected = slope(i, j) + (add ? static_cast<double>(before.view()(i, j)) : 0.0);
            ASSERT_NEAR(static_cast<double>(d_logits.view()(i, j)), expected, 2e-6);
          }
        }
      }
    });
  });
}

TEST(CrossEntropy, IfNothingCountsTheMeanAndItsGradientsAreZero) {
  on_every_isa([] {
    for (const int64_t rows : {0, 5}) {
      for (const bool by_weight : {false, true}) {
        Case c(rows, 9, {by_weight, false, by_weight ? 0.0F : 0.1F});
        for (int64_t& label : c.labels.values()) label = by_weight ? 3 : c.options.ignore_index;
        if (by_weight) c.weight.values()[3] = 0.0F;
        EXPECT_EQ(c.forward().values()[0], 0.0F);
        Matrix d_logits(rows, 9);
        const float one = 1.0F;
        cross_entropy_backward(c.saved(), {&one, {1}}, d_logits.view(), c.options);
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(d_logits.view()(i, j), 0.0F);
        }
      }
    }
  });
}

TEST(CrossEntropy, WithoutClassesEveryLabelIsIgnored) {
  const int64_t labels[] = {-100, -100};
  float loss = 5.0F;
  cross_entropy_forward({nullptr, {2, 0}}, {labels, {2}}, {&loss, {1}});
  EXPECT_EQ(loss, 0.0F);
}

TEST(CrossEntropy, IgnoredRowsMayHoldAnything) {
  Case c(3, 20, {false, true, 0.1F});
  const float expected = c.forward().values()[0];
  for (int64_t j = 0; j < 20; ++j) c.logits.view()(1, j) = kNan;
  EXPECT_EQ(c.forward().values()[0], expected);
  const float one = 1.0F;
  cross_entropy_backward(c.saved(), {&one, {1}}, c.logits.view(), c.options);
  EXPECT_EQ(c.logits.view()(1, 7), 0.0F);
  EXPECT_FALSE(std::isnan(c.logits.view()(0, 7)));
}

TEST(CrossEntropy, NanInARowThatCountsIsNan) {
  on_every_isa([] {
    for (const int64_t column : {0, 15, 16, 36}) {
      Case c(2, 37);
      c.logits.view()(1, column) = kNan;
      c.options.reduction = LossReduction::none;
      const Tensor loss = c.forward();
      EXPECT_FALSE(std::isnan(loss.values()[0]));
      EXPECT_TRUE(std::isnan(loss.values()[1]));
    }
  });
}

TEST(CrossEntropy, LargeLogitsDoNotCancel) {
  on_every_isa([] {
    for (const float smoothing : {0.0F, 0.1F}) {
      // Multiples of 1/4, so that adding 2^20 is exact.
      const float small[] = {0.25F, -3.0F, 1.5F, 2.0F, -0.75F};
      const int64_t label = 1;
      float losses[2], gradients[2][5];
      for (int large = 0; large < 2; ++large) {
        float logits[5], softmax[2];
        for (int c = 0; c < 5; ++c) logits[c] = small[c] + (large == 1 ? 0x1p20F : 0.0F);
        const CrossEntropyOptions options{.label_smoothing = smoothing};
        cross_entropy_forward({logits, {1, 5}}, {&label, {1}}, {&losses[large], {1}}, options, {softmax, {1, 2}});
        const float one = 1.0F;
        cross_entropy_backward({{logits, {1, 5}}, {&label, {1}}, {softmax, {1, 2}}}, {&one, {1}},
                               View<float, 2>(gradients[large], {1, 5}), options);
      }
      EXPECT_EQ(losses[0], losses[1]);
      for (int c = 0; c < 5; ++c) EXPECT_EQ(gradients[0][c], gradients[1][c]);
    }
  });
}

TEST(CrossEntropy, SameBitsForAnyNumberOfThreadsAloneAndInPlace) {
  on_every_isa([] {
    Case c(300, 257, {true, true, 0.1F});
    c.options.reduction = LossReduction::none;
    const Tensor loss = c.forward();
    const Tensor d_loss = loss;
    Matrix d_logits(300, 257);
    cross_entropy_backward(c.saved(), d_loss.view<1>(), d_logits.view(), c.options);
    {
      const Threads threads(3);
      const Tensor again = c.forward();
      expect_same_bits<1>(again.view<1>(), loss.view<1>());
      Matrix in_place = c.logits;
      CrossEntropySaved saved = c.saved();
      saved.logits = in_place.view();
      cross_entropy_backward(saved, d_loss.view<1>(), in_place.view(), c.options);
      expect_same_bits<2>(in_place.view(), d_logits.view());
    }
    for (const int64_t row : {17, 18}) {
      float alone = 0.0F, softmax[2];
      const View<const float, 2> logits = std::as_const(c.logits).view().slice(0, row, 1);
      const View<const int64_t, 1> label = c.label_view().slice(0, row, 1);
      cross_entropy_forward(logits, label, {&alone, {1}}, c.options, {softmax, {1, 2}});
      EXPECT_EQ(alone, loss.values()[static_cast<size_t>(row)]);
      Matrix gradient(1, 257);
      cross_entropy_backward({logits, label, {softmax, {1, 2}}}, d_loss.view<1>().slice(0, row, 1), gradient.view(),
                             c.options);
      expect_same_bits<2>(gradient.view(), d_logits.view().slice(0, row, 1));
    }
  });
}

TEST(CrossEntropy, AllocatesNothingAfterTheFirstCallWithAnArena) {
  Case c(70, 40, {true, true, 0.1F});
  Arena arena;
  float loss = 0.0F;
  const float one = 1.0F;
  Matrix d_logits(70, 40);
  const auto call = [&] {
    cross_entropy_forward(c.logits.view(), c.label_view(), {&loss, {1}}, c.options, c.softmax.view(), &arena);
    cross_entropy_backward(c.saved(), {&one, {1}}, d_logits.view(), c.options);
  };
  call();
  const int64_t allocations = allocation_count();
  call();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(CrossEntropy, RefusesALabelThatIsNoClass) {
  Case c(4, 5);
  c.labels.values()[2] = 5;
  float loss = 7.0F;
  const auto forward = [&] { cross_entropy_forward(c.logits.view(), c.label_view(), {&loss, {1}}, c.options); };
  expect_error("cross_entropy_forward", forward, {"row 2 has label 5", "0 to 4", "ignore_index -100"});
  c.labels.values()[2] = -1;
  expect_error("cross_entropy_forward", forward, {"row 2 has label -1"});
  EXPECT_EQ(loss, 7.0F);
  Matrix d_logits(4, 5);
  const float one = 1.0F;
  expect_error("cross_entropy_backward",
               [&] {
                 cross_entropy_backward(c.saved(), {&one, {1}}, d_logits.view(), c.options);
               },
               {"row 2 has label -1"});
  c.options.ignore_index = -1;
  forward();
}

TEST(CrossEntropy, RefusesWhatDoesNotFit) {
  Case c(4, 5);
  Tensor losses({4});
  const auto refused = [&](const std::vector<std::string>& parts) {
    expect_error(
        "cross_entropy_forward",
        [&] { cross_entropy_forward(c.logits.view(), c.label_view(), losses.view<1>(), c.options); }, parts);
  };
  refused({"loss has shape [4], expected [1]"});
  c.options.reduction = LossReduction::none;
  c.options.label_smoothing = 1.5F;
  refused({"label_smoothing is 1.5", "0 to 1"});
  c.options.label_smoothing = kNan;
  refused({"label_smoothing is nan"});
  c.options.label_smoothing = 0.0F;
  c.options.weight = std::as_const(losses).view<1>();
  refused({"weight has 4 values, expected 5"});
  c.options.weight = {};
  c.labels = TensorOf<int64_t>({3});
  refused({"there are 3 labels for 4 rows"});
  Matrix strided(4, 5, Layout::strided);
  expect_error("cross_entropy_forward",
               [&] { cross_entropy_forward(strided.view(), c.label_view(), losses.view<1>()); }, {"contiguous"});
  const Case fits(4, 5);
  Matrix wrong(5, 4);
  const float one = 1.0F;
  const auto backward = [&](const CrossEntropySaved& saved, View<float, 2> d_logits) {
    return [=] { cross_entropy_backward(saved, {&one, {1}}, d_logits); };
  };
  expect_error("cross_entropy_backward", backward(fits.saved(), wrong.view()), {"d_logits has shape [5, 4]"});
  CrossEntropySaved without = fits.saved();
  without.softmax = {};
  expect_error("cross_entropy_backward", backward(without, c.logits.view()), {"softmax has shape [0, 0]", "[4, 2]"});
}

}  // namespace
}  // namespace heed::test
