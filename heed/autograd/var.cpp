#include "heed/autograd/var.h"

#include <algorithm>

#include "heed/autograd/tape.h"
#include "heed/ops/elementwise.h"

namespace heed {

Tape& Var::tape() const {
  check(tape_ != nullptr, "Var", "it is empty: it comes from no tape");
  check(lifetime_->load(std::memory_order_relaxed) == generation_, "Var", "a Var of shape ", shape_,
        " is used after its tape was cleared or destroyed: copy its values before");
  return *tape_;
}

std::span<const float> Var::values() const { return {tape().node_of(*this).value, static_cast<size_t>(count())}; }

float Var::item() const {
  check(count() == 1, "Var::item", "the shape is ", shape_, ", and only a Var of one element is one number");
  return values()[0];
}

Var Var::reshape(Dims shape) const {
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) {
      check(shape[i] >= 0, "reshape", "a size of ", shape[i], " in ", shape);
      known = multiply_saturating(known, shape[i]);
      continue;
    }
    check(open < 0, "reshape", "more than one size of -1 in ", shape);
    open = i;
  }
  if (open >= 0) {
    check(known > 0 && count() % known == 0, "reshape", "the ", count(), " elements of ", shape_, " do not fill ",
          shape);
    shape[open] = count() / known;
  }
  check(shape.count() == count(), "reshape", shape_, " has ", count(), " elements, and ", shape, " has ",
        shape.count());
  tape();
  Var result = *this;
  result.shape_ = shape;
  return result;
}

Var Var::detach() const {
  return tape().add_node(Tape::Node::Kind::constant, tape().node_of(*this).value, shape_, false);
}

bool Var::needs_gradient() const { return tape().needs_gradient(*this); }

void Var::backward() const {
  check(count() == 1, "backward", "the shape is ", shape_,
        ": only a loss of one element has a gradient by itself; pass the gradient of this Var");
  tape().backward(*this, nullptr);
}

void Var::backward(std::span<const float> gradient) const {
  check(static_cast<int64_t>(gradient.size()) == count(), "backward", "the gradient has ", gradient.size(),
        " values for a Var of shape ", shape_);
  tape().backward(*this, gradient.data());
}

void Var::keep_gradient() const {
  check(!tape().ran_backward_, "Var::keep_gradient", "backward has run: say so before it");
  tape().node_of(*this).keeps_gradient = true;
}

std::span<const float> Var::gradients() const {
  Tape& tape = this->tape();
  Tape::Node& node = tape.node_of(*this);
  check(tape.ran_backward_, "Var::gradients", "backward has not run on this tape");
  check(node.needs_gradient, "Var::gradients", "this Var of shape ", shape_,
        " needs no gradient: make it with Tape::leaf or from parameters, outside of NoGrad");
  check(node.keeps_gradient, "Var::gradients", "the gradient of a Var of shape ", shape_,
        " was not kept: call keep_gradient() before backward");
  if (node.gradient == nullptr) {
    node.gradient = tape.take_gradient(node.count);
    std::fill_n(node.gradient, node.count, 0.0F);
  }
  return {node.gradient, static_cast<size_t>(count())};
}

std::span<float> Var::output_values() const {
  Tape::Node& node = tape().node_of(*this);
  check(node.kind == Tape::Node::Kind::output && node.backward == nullptr, "Var::output_values",
        "only an op writes the values of a Var, before it records it");
  return {node.value, static_cast<size_t>(count())};
}

const float* Var::arrived() const { return tape().node_of(*this).gradient; }

Var::Destination Var::destination() const {
  Tape::Node& node = tape().node_of(*this);
  if (!node.needs_gradient) return {};
  if (node.gradient != nullptr) return {node.gradient, true};
  node.gradient = tape().take_gradient(node.count);
  return {node.gradient, false};
}

float* Var::added() const {
  const Destination to = destination();
  if (to.data != nullptr && !to.add) std::fill_n(to.data, count(), 0.0F);
  return to.data;
}

void Var::take_gradient_of(const Var& y) const {
  Tape::Node& node = tape().node_of(*this);
  Tape::Node& from = tape().node_of(y);
  check(node.count == from.count, "take_gradient_of", "the shapes are ", shape_, " and ", y.shape());
  if (!node.needs_gradient || from.gradient == nullptr) return;
  if (node.gradient == nullptr && !from.keeps_gradient) {
    std::swap(node.gradient, from.gradient);
    return;
  }
  const Destination to = destination();
  const Shape<4> all{1, 1, 1, node.count};
  scale_add(1.0F, {from.gradient, all}, {View<float, 4>(to.data, all), to.add});
}

}  // namespace heed
