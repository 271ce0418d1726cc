// Convolution over time against plain loops in double, and its gradients against central differences.
#include "heed/ops/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/matrix.h"
#include "tests/support/reference_convolution.h"
#include "tests/support/strided_tensor.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

// Sizes of a call: x [items, length, channels], weight [outputs, channels / groups, kernel].
struct ConvolutionCase {
  int64_t items, length, channels, outputs, kernel;
  Conv1dGeometry geometry{};
};

constexpr ConvolutionCase kCases[] = {
    {1, 1, 1, 1, 1, {}},
    {2, 9, 3, 5, 3, {}},
    {2, 9, 3, 5, 3, {.padding = 1}},
    {3, 17, 4, 6, 7, {.stride = 3}},
    {2, 17, 4, 6, 7, {.stride = 3, .padding = 2}},
    {2, 13, 4, 6, 3, {.dilation = 2}},
    {2, 13, 4, 6, 3, {.stride = 2, .padding = 3, .dilation = 2}},
    {2, 23, 4, 6, 3, {.stride = 4, .dilation = 6}},
    {2, 13, 4, 6, 2, {.stride = 5, .padding = 1}},
    {2, 13, 4, 6, 3, {.stride = 2, .padding = 1, .groups = 2}},
    {2, 9, 5, 5, 3, {.padding = 1, .dilation = 2, .groups = 5}},
    {2, 7, 3, 17, 7, {.stride = 9}},
    {1, 3, 2, 3, 3, {.padding = 4}},
    {0, 5, 2, 3, 3, {}},
    {2, 5, 2, 0, 3, {}},
    {2, 5, 0, 3, 3, {}},
};
constexpr ConvolutionCase kLarge{3, 101, 40, 70, 7, {.stride = 3, .padding = 2}};

struct Convolution {
  explicit Convolution(const ConvolutionCase& c)
      : geometry(c.geometry),
        x({c.items, c.length, c.channels}, Spread::contiguous, 1),
        weight({c.outputs, c.channels / c.geometry.groups, c.kernel}, Spread::contiguous, 2),
        bias({c.outputs}, Spread::contiguous, 3),
        d_y(conv1d_shape("test", x.view().shape(), weight.view().shape(), c.geometry), Spread::contiguous, 4) {}

  Conv1dParameters parameters() const { return {weight.view(), bias.view(), geometry}; }
  StridedTensor<3> output() const { return StridedTensor<3>(d_y.view().shape(), Spread::contiguous, 5); }
  std::vector<double> reference(const std::vector<double>& x_values, const std::vector<double>& weights,
                                const std::vector<double>& biases) const {
    return reference_conv1d(x_values, x.view().shape(), weights, weight.view().shape(), biases, geometry);
  }

  Conv1dGeometry geometry;
  StridedTensor<3> x, weight;
  StridedTensor<1> bias;
  StridedTensor<3> d_y;
};

// Where the gradients of a call go; filled with other numbers before.
struct Gradients {
  explicit Gradients(const Convolution& c)
      : x(c.x.view().shape(), Spread::contiguous, 6),
        weight(c.weight.view().shape(), Spread::contiguous, 7),
        bias(c.bias.view().shape(), Spread::contiguous, 8) {}

  Conv1dGradients views(bool add = false) { return {{x.view(), add}, weight.view(), bias.view()}; }

  StridedTensor<3> x, weight;
  StridedTensor<1> bias;
};

TEST(Conv1d, ForwardMatchesDouble) {
  on_every_isa([] {
    for (const ConvolutionCase& each : kCases) {
      const Convolution c(each);
      StridedTensor<3> y = c.output();
      conv1d_forward(c.x.view(), c.parameters(), y.view());
      expect_gradient(y, c.reference(c.x.values(), c.weight.values(), c.bias.values()), false, 2e-5);
      conv1d_forward(c.x.view(), {c.weight.view(), {}, c.geometry}, y.view());
      expect_gradient(y, c.reference(c.x.values(), c.weight.values(), {}), false, 2e-5);
    }
    const Convolution c(kLarge);
    StridedTensor<3> y = c.output();
    conv1d_forward(c.x.view(), c.parameters(), y.view());
    expect_gradient(y, c.reference(c.x.values(), c.weight.values(), c.bias.values()), false, 1e-4);
  });
}

TEST(Conv1d, BackwardIsTheSlopeTimesTheGradientWrittenOrAdded) {
  on_every_isa([] {
    for (const ConvolutionCase& each : kCases) {
      const Convolution c(each);
      const std::vector<double> x = c.x.values(), weight = c.weight.values(), bias = c.bias.values();
      const std::vector<double> d_y = c.d_y.values();
      const auto d_x = central_differences([&](const auto& v) { return c.reference(v, weight, bias); }, x, d_y);
      const auto d_w = central_differences([&](const auto& v) { return c.reference(x, v, bias); }, weight, d_y);
      std::vector<double> d_b(bias.size());
      for (size_t i = 0; i < d_y.size(); ++i) d_b[i % bias.size()] += d_y[i];
      for (const bool add : {false, true}) {
        Gradients g(c);
        conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), g.views(add));
        expect_gradient(g.x, d_x, add, 2e-5);
        expect_gradient(g.weight, d_w, true, 4e-5);
        expect_gradient(g.bias, d_b, true, 2e-5);
      }
    }
  });
}

// The same maths as without one, applied before and after.
TEST(Conv1d, AnActivationIsAppliedToTheSumAndItsDerivativeKept) {
  on_every_isa([] {
    for (const Activation activation : {Activation::relu, Activation::gelu}) {
      for (const ConvolutionCase& each : {kCases[4], kCases[6], kCases[9], kLarge}) {
        const Convolution c(each);
        StridedTensor<3> plain = c.output(), y = c.output(), derivative = c.output(), alone = c.output();
        conv1d_forward(c.x.view(), c.parameters(), plain.view());
        conv1d_forward(c.x.view(), c.parameters(), y.view(), {activation, derivative.view()});
        conv1d_forward(c.x.view(), c.parameters(), alone.view(), {activation});
        expect_same_bits<3>(alone.view(), y.view());
        StridedTensor<3> expected = c.output(), d_z = c.output();
        const Shape<2> rows{plain.view().size(0) * plain.view().size(1), plain.view().size(2)};
        activation_forward(activation, {plain.view().data(), rows}, {}, {expected.view().data(), rows});
        expect_same_bits<3>(y.view(), expected.view());
        activation_backward(activation, {plain.view().data(), rows}, {c.d_y.view().data(), rows},
                            View<float, 2>(d_z.view().data(), rows));
        Gradients got(c), by_hand(c);
        conv1d_backward({c.x.view(), derivative.view()}, c.parameters(), c.d_y.view(), got.views());
        conv1d_backward({c.x.view()}, c.parameters(), d_z.view(), by_hand.views());
        expect_same_bits<3>(got.x.view(), by_hand.x.view());
        expect_same_bits<3>(got.weight.view(), by_hand.weight.view());
        expect_same_bits<1>(got.bias.view(), by_hand.bias.view());
      }
    }
  });
}

TEST(Conv1d, GradientsThatAreNotWantedAreSkippedAndTheOthersHaveTheSameBits) {
  for (const ConvolutionCase& each : {kCases[4], kCases[6]}) {
    const Convolution c(each);
    Gradients all(c), single(c);
    conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), all.views());
    conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), {single.x.view(), {}, {}});
    conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), {{}, single.weight.view(), {}});
    conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), {{}, {}, single.bias.view()});
    expect_same_bits<3>(single.x.view(), all.x.view());
    expect_same_bits<3>(single.weight.view(), all.weight.view());
    expect_same_bits<1>(single.bias.view(), all.bias.view());
  }
}

TEST(Conv1d, SameBitsForAnyNumberOfThreadsAndAlone) {
  on_every_isa([] {
    ConvolutionCase dilated = kLarge;
    dilated.geometry.dilation = 2;
    dilated.geometry.groups = 2;
    for (const ConvolutionCase& each : {kLarge, dilated}) {
      const Convolution c(each);
      StridedTensor<3> expected = c.output();
      Gradients gradients(c);
      conv1d_forward(c.x.view(), c.parameters(), expected.view());
      conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), gradients.views());
      for (const int count : {1, 3}) {
        const Threads threads(count);
        StridedTensor<3> y = c.output();
        Gradients again(c);
        conv1d_forward(c.x.view(), c.parameters(), y.view());
        conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), again.views());
        expect_same_bits<3>(y.view(), expected.view());
        expect_same_bits<3>(again.x.view(), gradients.x.view());
        expect_same_bits<3>(again.weight.view(), gradients.weight.view());
        expect_same_bits<1>(again.bias.view(), gradients.bias.view());
      }
      StridedTensor<3> y = c.output();
      Gradients alone(c);
      conv1d_forward(c.x.view().slice(0, 1, 1), c.parameters(), y.view().slice(0, 1, 1));
      expect_same_bits<2>(y.view()[1], expected.view()[1]);
      conv1d_backward({c.x.view().slice(0, 1, 1)}, c.parameters(), c.d_y.view().slice(0, 1, 1),
                      {alone.x.view().slice(0, 1, 1), {}, {}});
      expect_same_bits<2>(alone.x.view()[1], gradients.x.view()[1]);
    }
  });
}

TEST(Conv1d, NanReachesTheWindowsThatSeeItAndNoOthers) {
  Convolution c({1, 9, 2, 3, 3, {.stride = 2}});
  c.x.view()(0, 4, 1) = std::numeric_limits<float>::quiet_NaN();
  StridedTensor<3> y = c.output();
  conv1d_forward(c.x.view(), c.parameters(), y.view());
  for (int64_t p = 0; p < 4; ++p) EXPECT_EQ(std::isnan(y.at({0, p, 0})), p == 1 || p == 2) << p;
}

TEST(Conv1d, ReadsAndWritesNothingOutsideOfItsViews) {
  const Shape<3> x_shape{2, 24, 8}, weight_shape{16, 8, 7};
  on_every_isa([&] {
    for (const GuardedMemory::Side side : {GuardedMemory::Side::begin, GuardedMemory::Side::end}) {
      for (const Conv1dGeometry& geometry : {Conv1dGeometry{}, {.stride = 3}, {.padding = 3}, {.dilation = 2}}) {
        const Shape<3> y_shape = conv1d_shape("test", x_shape, weight_shape, geometry);
        const auto place = [&](const Shape<3>& shape) {
          return GuardedMemory(static_cast<size_t>(element_count(shape)) * sizeof(float), side);
        };
        const auto view = [](const GuardedMemory& memory, const Shape<3>& shape) {
          const View<float, 3> result(reinterpret_cast<float*>(memory.data()), shape);
          std::fill_n(result.data(), result.count(), 1.0F);
          return result;
        };
        const GuardedMemory memory[] = {place(x_shape), place(weight_shape), place(y_shape),
                                        place(x_shape), place(weight_shape), place(y_shape)};
        const View<float, 3> x = view(memory[0], x_shape), weight = view(memory[1], weight_shape);
        const View<float, 3> y = view(memory[2], y_shape), d_x = view(memory[3], x_shape);
        const View<float, 3> d_weight = view(memory[4], weight_shape), d_y = view(memory[5], y_shape);
        conv1d_forward(x, {weight, {}, geometry}, y);
        conv1d_backward({x}, {weight, {}, geometry}, d_y, {d_x, d_weight, {}});
        EXPECT_EQ(y(0, y.size(1) / 2, 0), 56.0F);
        EXPECT_EQ(d_weight(0, 0, 3), 1.0F + 2.0F * static_cast<float>(y.size(1)));
      }
    }
  });
}

TEST(Conv1d, AllocatesNothingWithAnArena) {
  for (const ConvolutionCase& each : {kCases[4], kCases[6], kCases[9], kLarge}) {
    const Convolution c(each);
    StridedTensor<3> y = c.output(), z = c.output();
    Gradients gradients(c);
    Arena arena;
    const auto run = [&] {
      conv1d_forward(c.x.view(), c.parameters(), y.view(), {Activation::relu, z.view(), &arena});
      conv1d_backward({c.x.view(), z.view()}, c.parameters(), c.d_y.view(), gradients.views(), &arena);
    };
    run();
    run();
    const int64_t allocations = allocation_count();
    run();
    EXPECT_EQ(allocation_count(), allocations);
    EXPECT_EQ(arena.used_bytes(), 0U);
  }
}

TEST(Conv1d, RefusesWhatDoesNotFit) {
  constexpr const char* kForward = "conv1d_forward";
  const Convolution c(kCases[1]);  // x [2, 9, 3], weight [5, 3, 3]
  StridedTensor<3> y = c.output(), other({2, 9, 5});
  const auto forward = [&](const Conv1dGeometry& geometry) {
    return [&, geometry] { conv1d_forward(c.x.view(), {c.weight.view(), c.bias.view(), geometry}, y.view()); };
  };
  expect_error(kForward, forward({.stride = 0}), {"stride is 0"});
  expect_error(kForward, forward({.padding = -1}), {"padding is -1"});
  expect_error(kForward, forward({.dilation = 0}), {"dilation is 0"});
  expect_error(kForward, forward({.groups = 2}), {"2 groups do not divide 3 channels and 5 outputs"});
  expect_error(kForward, forward({.groups = 0}), {"0 groups"});
  expect_error(kForward, forward({.dilation = 5}), {"a kernel of 3 with dilation 5 spans 11 rows", "x has 9"});
  expect_error(kForward, forward({.stride = 2}), {"y has shape [2, 7, 5], expected [2, 4, 5]"});
  expect_error(kForward, [&] { conv1d_forward(other.view(), c.parameters(), y.view()); },
               {"x [2, 9, 5]", "weight [5, 3, 3]", "[outputs, 5, kernel]"});
  expect_error(kForward,
               [&] {
                 conv1d_forward(c.x.view(), {c.weight.view(), y.view()[0][0].slice(0, 0, 4)}, y.view());
               },
               {"bias has shape [4], expected [5]"});
  expect_error(kForward,
               [&] {
                 conv1d_forward(c.x.view(), c.parameters(), y.view(), {Activation::relu, y.view()});
               },
               {"derivative", "shares memory with y"});
  Gradients g(c);
  constexpr const char* kBackward = "conv1d_backward";
  expect_error(kBackward, [&] { conv1d_backward({c.x.view()}, c.parameters(), other.view(), g.views()); },
               {"d_y has shape [2, 9, 5], expected [2, 7, 5]"});
  expect_error(kBackward,
               [&] {
                 conv1d_backward({c.x.view(), other.view()}, c.parameters(), c.d_y.view(), g.views());
               },
               {"derivative has shape [2, 9, 5], expected [2, 7, 5]"});
  expect_error(kBackward,
               [&] {
                 conv1d_backward({c.x.view()}, c.parameters(), c.d_y.view(), {other.view(), {}, {}});
               },
               {"the gradient of x has shape [2, 9, 5], expected [2, 9, 3]"});
}

}  // namespace
}  // namespace heed::test
