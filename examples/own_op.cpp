// An op of your own: the activation snake(x) = x + sin²(a x) / a, whose frequency a is learned. An op is a pair of
// plain functions and a struct of what the second needs of the first. Its gradients are compared with central
// differences.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "heed/heed.h"

using namespace heed;

// What backward needs. Results of forward could be kept here too, in memory of Tape::keep.
struct SnakeSaved {
  Var x;  // of any shape
  Var a;  // [1]
};

// Runs when the gradient of y has arrived. Each destination is asked for directly before it is filled: it says whether
// to write or to add, and is null where no gradient is wanted.
void snake_backward(const SnakeSaved& saved, const Var& y) {
  const std::span<const float> x = saved.x.values();
  const float a = saved.a.item();
  const float* d_y = y.arrived();
  if (const Var::Destination d_x = saved.x.destination(); d_x.data != nullptr) {
    for (size_t i = 0; i < x.size(); ++i) {
      d_x.data[i] = (d_x.add ? d_x.data[i] : 0.0F) + d_y[i] * (1.0F + std::sin(2.0F * a * x[i]));
    }
  }
  if (float* const d_a = saved.a.added(); d_a != nullptr) {  // 0 before the first addition
    for (size_t i = 0; i < x.size(); ++i) {
      const float sine = std::sin(a * x[i]);
      *d_a += d_y[i] * (x[i] * std::sin(2.0F * a * x[i]) - sine * sine / a) / a;
    }
  }
}

Var snake(const Var& x, const Var& a) {
  check(a.count() == 1, "snake", "a has shape ", a.shape(), ", expected [1]");
  const Var y = x.tape().output(x.shape(), {x, a});
  for (size_t i = 0; i < x.values().size(); ++i) {
    const float sine = std::sin(a.item() * x.values()[i]);
    y.output_values()[i] = x.values()[i] + sine * sine / a.item();
  }
  return x.tape().record<snake_backward>(y, SnakeSaved{x, a});
}

// Uses x twice, so that one of its gradients is written and the other added.
Var loss_of(const Var& x, const Var& a) { return mean(snake(x, a) * x); }

int main() {
  Tensor x({3, 2}), a({1});
  Rng(1).fill_normal(x.values());
  a.values()[0] = 1.5F;
  Tape tape;
  const Var x_leaf = tape.leaf(x), a_leaf = tape.leaf(a);
  loss_of(x_leaf, a_leaf).backward();

  Tape other;
  const NoGrad no_grad(other);
  double worst = 0.0;
  const auto compare = [&](Tensor& input, const Var& leaf) {
    for (size_t i = 0; i < leaf.values().size(); ++i) {
      constexpr float kStep = 0x1p-8F;
      input.values()[i] = leaf.values()[i] + kStep;
      const float above = loss_of(other.constant(x), other.constant(a)).item();
      input.values()[i] = leaf.values()[i] - kStep;
      const float below = loss_of(other.constant(x), other.constant(a)).item();
      input.values()[i] = leaf.values()[i];
      worst = std::fmax(worst, std::fabs(leaf.gradients()[i] - (above - below) / (2.0F * kStep)));
    }
  };
  compare(x, x_leaf), compare(a, a_leaf);
  std::printf("gradients of x and a: within %.0e of central differences\n", worst);
  return worst < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
