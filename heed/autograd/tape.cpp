#include "heed/autograd/tape.h"

#include <algorithm>
#include <mutex>

#include "heed/core/error.h"
#include "heed/core/extent.h"

namespace heed {
namespace {

// Generation numbers outlive the tapes that use them, so that a Var can tell that its tape is gone: a number is handed
// on to a later tape and never goes back.
struct Generations {
  std::mutex mutex;
  std::vector<std::unique_ptr<std::atomic<uint64_t>>> all;
  std::vector<std::atomic<uint64_t>*> unused;
};

Generations& generations() {
  static auto* const kept = new Generations;  // never destroyed: static tapes may be later
  return *kept;
}

std::atomic<uint64_t>* take_generation() {
  Generations& pool = generations();
  const std::lock_guard lock(pool.mutex);
  if (pool.unused.empty()) {
    pool.all.push_back(std::make_unique<std::atomic<uint64_t>>(1));
    pool.unused.reserve(pool.all.size());  // giving one back never allocates
    return pool.all.back().get();
  }
  std::atomic<uint64_t>* const taken = pool.unused.back();
  pool.unused.pop_back();
  return taken;
}

void give_back(std::atomic<uint64_t>* generation) {
  generation->fetch_add(1, std::memory_order_relaxed);
  Generations& pool = generations();
  const std::lock_guard lock(pool.mutex);
  pool.unused.push_back(generation);
}

}  // namespace

Tape::Tape(const StepKey& key) : lifetime_(take_generation()), key_(key) { step_scope_.emplace(step_); }

Tape::~Tape() {
  destroy_saved();
  give_back(lifetime_);
}

void Tape::destroy_saved() {
  for (Node& node : nodes_) {
    if (node.destroy != nullptr) node.destroy(node.saved);
  }
}

void Tape::clear() {
  destroy_saved();
  nodes_.clear();
  parameters_.clear();
  free_gradients_.clear();
  lifetime_->fetch_add(1, std::memory_order_relaxed);
  step_scope_.reset();
  step_scope_.emplace(step_);
  if (ran_backward_) ++key_.step;
  dropout_sites_ = 0;
  ran_backward_ = false;
}

Tape::Node& Tape::node_of(const Var& var) {
  check(&var.tape() == this, "Tape", "a Var of another tape: the Vars of an op must be of one tape");
  return node_at(var.node_);
}

Var Tape::var_of(int32_t node) { return {this, lifetime_, node, node_at(node).shape}; }

Var Tape::add_node(Node::Kind kind, float* value, const Dims& shape, bool needs_gradient) {
  check(nodes_.size() < (size_t{1} << 30), "Tape", "too many ops in one step: clear() the tape after each step");
  Node node;
  node.kind = kind;
  node.keeps_gradient = kind == Node::Kind::leaf || kind == Node::Kind::parameter;
  node.value = value;
  node.count = shape.count();
  node.shape = shape;
  node.needs_gradient = needs_gradient;
  nodes_.push_back(node);
  return {this, lifetime_, static_cast<int32_t>(nodes_.size() - 1), shape};
}

float* Tape::copied(const Tensor& tensor) {
  float* const values = step_.take<float>(tensor.count());
  std::copy(tensor.values().begin(), tensor.values().end(), values);
  return values;
}

// The values of a Var are written only by the op that made it (Var::output_values), so that those of others may be
// const.
Var Tape::constant(const Tensor& tensor) { return constant(copied(tensor), Dims(tensor.shape())); }

Var Tape::constant(const float* values, const Dims& shape) {
  check_sizes("Tape::constant", "the tensor", shape);
  return add_node(Node::Kind::constant, const_cast<float*>(values), shape, false);
}

Var Tape::leaf(const Tensor& tensor) { return leaf(copied(tensor), Dims(tensor.shape())); }

Var Tape::leaf(const float* values, const Dims& shape) {
  check_sizes("Tape::leaf", "the tensor", shape);
  return add_node(Node::Kind::leaf, const_cast<float*>(values), shape, recording_);
}

Var Tape::parameter(const Parameter& parameter) {
  check(parameter.given(), "Tape::parameter", "the parameter is absent: check given() first");
  ParameterData& data = *parameter.shared();
  const bool wanted = recording_ && !data.frozen;
  const Var var = add_node(Node::Kind::parameter, data.value, data.shape, wanted);
  if (wanted) nodes_.back().gradient = data.gradients().data();
  parameters_.push_back({parameter.shared(), data.value_memory, wanted ? data.gradient_memory : nullptr, data.version});
  return var;
}

Var Tape::output_of_block(const Dims& shape, bool needs_gradient) {
  check_sizes("Tape::output_of_block", "the result", shape);
  return add_node(Node::Kind::output, step_.take<float>(shape.count()), shape, needs_gradient && recording_);
}

Var Tape::output(const Dims& shape, std::initializer_list<Var> inputs) {
  check_sizes("Tape::output", "the result", shape);
  bool wanted = false;
  for (const Var& input : inputs) wanted |= input.given() && needs_gradient(input);
  return add_node(Node::Kind::output, step_.take<float>(shape.count()), shape, wanted && recording_);
}

// Sizes repeat from op to op, so that gradients that were used up are found again by their size.
float* Tape::take_gradient(int64_t count) {
  for (size_t i = free_gradients_.size(); i-- > 0;) {
    if (free_gradients_[i].count != count) continue;
    float* const memory = free_gradients_[i].memory;
    free_gradients_[i] = free_gradients_.back();
    free_gradients_.pop_back();
    return memory;
  }
  return step_.take<float>(count);
}

void Tape::release_gradient(Node& node) {
  if (node.gradient == nullptr || node.keeps_gradient) return;
  free_gradients_.push_back({node.gradient, node.count});
  node.gradient = nullptr;
}

void Tape::backward(const Var& from, const float* gradient) {
  constexpr const char* kName = "backward";
  Node& last = node_of(from);
  check(last.needs_gradient, kName, "nothing that this Var ", from.shape(),
        " depends on wants a gradient: it was computed under NoGrad, or from constants and frozen parameters only");
  check(!ran_backward_, kName, "a second backward through one tape: clear() the tape, and compute the loss again");
  for (const UsedParameter& used : parameters_) {
    const ParameterData& now = *used.data;
    const bool moved =
        now.value_memory != used.value || (used.gradient != nullptr && now.gradient_memory != used.gradient);
    check(!moved, kName, "a parameter of shape ", now.shape,
          " was moved by an optimiser that was made after the forward pass: make it before");
    check(now.version == used.version, kName, "a parameter of shape ", now.shape,
          " was changed after the forward pass, by an optimiser's step, by loading or by hand: call backward before");
  }
  ran_backward_ = true;
  const NoGrad no_grad(*this);
  if (last.gradient == nullptr) {
    last.gradient = take_gradient(last.count);
    std::fill_n(last.gradient, last.count, 0.0F);
  }
  for (int64_t i = 0; i < last.count; ++i) last.gradient[i] += gradient == nullptr ? 1.0F : gradient[i];
  for (int32_t at = from.node_; at >= 0; --at) {
    const Node node = node_at(at);  // a copy: a user's backward may add nodes
    if (node.held) continue;
    const std::span<Node> outputs(&node_at(at), static_cast<size_t>(node.further_outputs) + 1);
    const bool arrived =
        std::any_of(outputs.begin(), outputs.end(), [](const Node& y) { return y.gradient != nullptr; });
    if (node.backward != nullptr && arrived) node.backward(node.saved, var_of(at));
    for (int32_t i = 0; i <= node.further_outputs; ++i) release_gradient(node_at(at + i));
  }
}

}  // namespace heed
