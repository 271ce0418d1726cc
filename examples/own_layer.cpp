// A layer of your own, composed from modules, ops and a parameter: x + scale ∘ sigmoid(gate) ∘ value, with the gate and
// the value of a normed x. Three of them learn a product of two inputs.
#include <cstdio>
#include <vector>

#include "heed/heed.h"

using namespace heed;

struct GatedResidual {
  explicit GatedResidual(int64_t width) : norm(width), gate(width, width), value(width, width), scale({width}) {}

  nn::LayerNorm norm;
  nn::Linear gate, value;
  Parameter scale;  // [width]

  // x [..., width] → [..., width].
  Var operator()(const Var& x) const {
    const Var normed = norm(x);
    return x + glu(gate(normed), value(normed), Activation::sigmoid) * x.tape().parameter(scale);
  }

  // Names, saving, loading, initialising, freezing and optimisers follow from this list.
  void parts(auto&& visit) { visit("norm", norm), visit("gate", gate), visit("value", value), visit("scale", scale); }

  // Runs after the parts have initialised themselves: only what differs from them. Optional.
  void initialise(nn::Initialiser& draw) {
    draw.constant(scale, 0.5F);
    draw.constant(gate.bias, -1.0F);
  }
};

struct Model {
  nn::Linear in{2, 16};
  std::vector<GatedResidual> layers{3, GatedResidual(16)};
  nn::Linear out{16, 1};

  Var operator()(const Var& x) const {
    Var hidden = in(x);
    for (const GatedResidual& layer : layers) hidden = layer(hidden);
    return out(hidden);
  }

  void parts(auto&& visit) { visit("in", in), visit("layers", layers), visit("out", out); }
};

int main() {
  Model model;
  nn::initialise(model, Rng(0));
  for (const nn::NamedParameter& each : nn::parameters(model)) {
    std::printf("%-22s %4lld numbers\n", each.name.c_str(), static_cast<long long>(each.parameter->count()));
  }

  Tensor x({256, 2}), target({256, 1});
  Rng(1).fill_normal(x.values());
  for (int64_t n = 0; n < 256; ++n) target.view<2>()(n, 0) = x.view<2>()(n, 0) * x.view<2>()(n, 1);

  AdamW optimiser(nn::parameters(model), {.lr = 1e-2});
  Tape tape;
  for (int step = 0; step <= 200; ++step) {
    const Var loss = mse_loss(model(tape.constant(x)), tape.constant(target));
    if (step % 50 == 0) std::printf("step %3d: loss %.4f\n", step, loss.item());
    loss.backward();
    optimiser.step();
    tape.clear();
  }
}
