// glu_forward and glu_backward against the formula in double.
#include "heed/ops/glu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/activations.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

TEST(Glu, ForwardIsTheActivationOfOneHalfTimesTheOther) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      for (const int64_t width : {0, 1, 15, 16, 33}) {
        const Matrix x(5, 2 * width, Layout::padded_rows, 1);
        Matrix y(5, width, Layout::padded_rows, 2);
        glu_forward(activation, x.view().slice(1, 0, width), x.view().slice(1, width, width), y.view());
        y.expect_guards();
        for (int64_t i = 0; i < 5; ++i) {
          for (int64_t j = 0; j < width; ++j) {
            ASSERT_NEAR(at(y, i, j), activate(activation, at(x, i, j)) * at(x, i, width + j), 2e-6);
          }
        }
      }
    }
  });
}

TEST(Glu, BackwardOfBothHalvesIsWrittenOrAdded) {
  on_every_isa([] {
    for (const Activation activation : kActivations) {
      for (const int64_t width : {0, 1, 15, 16, 33}) {
        const Matrix x(5, 2 * width, Layout::padded_rows, 1), d_y(5, width, Layout::rows, 2);
        const View<const float, 2> a = x.view().slice(1, 0, width), b = x.view().slice(1, width, width);
        for (const bool add : {false, true}) {
          Matrix d_x(5, 2 * width, Layout::padded_rows, 3);
          const Matrix before = d_x;
          glu_backward(activation, a, b, d_y.view(),
                       {{d_x.view().slice(1, 0, width), add}, {d_x.view().slice(1, width, width), add}});
          d_x.expect_guards();
          for (int64_t i = 0; i < 5; ++i) {
            for (int64_t j = 0; j < width; ++j) {
              const double gate = at(x, i, j), d = at(d_y, i, j);
              const double d_a = slope_of(activation, gate) * d * at(x, i, width + j);
              const double d_b = activate(activation, gate) * d;
              ASSERT_NEAR(at(d_x, i, j), d_a + (add ? at(before, i, j) : 0.0), 6e-6);
              ASSERT_NEAR(at(d_x, i, width + j), d_b + (add ? at(before, i, width + j) : 0.0), 6e-6);
            }
          }
        }
      }
    }
  });
}

TEST(Glu, ComputesOnlyTheGradientsAskedFor) {
  const Matrix a(4, 9, Layout::rows, 1), b(4, 9, Layout::rows, 2), d_y(4, 9, Layout::rows, 3);
  Matrix d_a(4, 9), d_b(4, 9), only_a(4, 9), only_b(4, 9);
  glu_backward(Activation::silu, a.view(), b.view(), d_y.view(), {d_a.view(), d_b.view()});
  glu_backward(Activation::silu, a.view(), b.view(), d_y.view(), {.a = only_a.view()});
  glu_backward(Activation::silu, a.view(), b.view(), d_y.view(), {.b = only_b.view()});
  expect_same_bits<2>(only_a.view(), d_a.view());
  expect_same_bits<2>(only_b.view(), d_b.view());
}

TEST(Glu, SameBitsForAnyNumberOfThreadsAndInPlace) {
  on_every_isa([] {
    const Matrix a(300, 131, Layout::rows, 1), b(300, 131, Layout::rows, 2), d_y(300, 131, Layout::rows, 3);
    Matrix y(300, 131), d_a(300, 131), d_b(300, 131);
    glu_forward(Activation::silu, a.view(), b.view(), y.view());
    glu_backward(Activation::silu, a.view(), b.view(), d_y.view(), {d_a.view(), d_b.view()});
    const Threads threads(3);
    Matrix in_place = a, to_a = a, to_b = b;
    glu_forward(Activation::silu, in_place.view(), b.view(), in_place.view());
    expect_same_bits<2>(in_place.view(), y.view());
    glu_backward(Activation::silu, to_a.view(), to_b.view(), d_y.view(), {to_a.view(), to_b.view()});
    expect_same_bits<2>(to_a.view(), d_a.view());
    expect_same_bits<2>(to_b.view(), d_b.view());
  });
}

TEST(Glu, NanPassesThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1.0F;
  float y = 0.0F;
  glu_forward(Activation::gelu, {&nan, {1, 1}}, {&one, {1, 1}}, {&y, {1, 1}});
  EXPECT_TRUE(std::isnan(y));
  glu_forward(Activation::gelu, {&one, {1, 1}}, {&nan, {1, 1}}, {&y, {1, 1}});
  EXPECT_TRUE(std::isnan(y));
}

TEST(Glu, RefusesWhatDoesNotFit) {
  Matrix x(3, 8), y(3, 4), wrong(4, 3), strided(3, 4, Layout::strided);
  const View<float, 2> a = x.view().slice(1, 0, 4), b = x.view().slice(1, 4, 4);
  expect_error([&] { glu_forward(Activation::silu, a, wrong.view(), y.view()); },
               {"glu_forward: ", "b has shape [4, 3], expected [3, 4]"});
  expect_error([&] { glu_forward(Activation::silu, strided.view(), b, y.view()); }, {"contiguous"});
  expect_error([&] { glu_forward(Activation::silu, a, b, x.view().slice(1, 2, 4)); },
               {"glu_forward: ", "y of shape [3, 4] shares memory with a"});
  expect_error([&] { glu_backward(Activation::silu, a, b, wrong.view(), {y.view()}); },
               {"glu_backward: ", "d_y has shape [4, 3]"});
  expect_error(
      [&] {
        glu_backward(Activation::silu, a, b, y.view(), {y.view(), y.view()});
      },
      {"glu_backward: ", "the gradient of a", "shares memory with the gradient of b"});
}

}  // namespace
}  // namespace heed::test
