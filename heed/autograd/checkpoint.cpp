#include "heed/autograd/checkpoint.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed {

// Runs blocks on a tape inside the tape of x.
class CheckpointedBlock {
 public:
  // Where dropout stands when the block begins.
  struct Start {
    StepKey key;
    uint64_t sites = 0;
    bool training = true;
  };

  static Start start(const Tape& tape) { return {tape.key_, tape.dropout_sites_, tape.training_}; }
  static void set_sites(Tape& tape, uint64_t sites) { tape.dropout_sites_ = sites; }
  static uint64_t sites(const Tape& tape) { return tape.dropout_sites_; }

  // Does a parameter that was used want a gradient?
  static bool trains(const Tape& tape) {
    return std::any_of(tape.parameters_.begin(), tape.parameters_.end(),
                       [](const auto& used) { return !used.data->frozen; });
  }

  static Tape& inner(Tape& tape, const Start& start) {
    if (tape.inner_ == nullptr) tape.inner_ = std::make_unique<Tape>();
    Tape& inner = *tape.inner_;
    inner.clear();
    inner.key_ = start.key;
    inner.dropout_sites_ = start.sites;
    inner.training_ = start.training;
    return inner;
  }
};

namespace {

struct CheckpointSaved {
  Var x;
  std::function<Var(const Var&)> block;
  CheckpointedBlock::Start start;
};

void checkpoint_backward(const CheckpointSaved& saved, const Var& y) {
  Tape& inner = CheckpointedBlock::inner(y.tape(), saved.start);
  const bool wanted = saved.x.needs_gradient();
  const float* const values = saved.x.values().data();
  const Var x = wanted ? inner.leaf(values, saved.x.shape()) : inner.constant(values, saved.x.shape());
  const Var again = saved.block(x);
  if (!again.needs_gradient()) return;
  again.backward({y.arrived(), static_cast<size_t>(y.count())});
  if (!wanted) return;
  const Var::Destination to = saved.x.destination();
  const std::span<const float> d_x = x.gradients();
  if (to.add) {
    std::transform(d_x.begin(), d_x.end(), to.data, to.data, std::plus<>());
  } else {
    std::copy(d_x.begin(), d_x.end(), to.data);
  }
}

}  // namespace

Var checkpoint(const Var& x, std::function<Var(const Var&)> block) {
  Tape& tape = x.tape();
  if (!tape.recording()) return block(x);
  CheckpointSaved saved{x, std::move(block), CheckpointedBlock::start(tape)};
  Tape& inner = CheckpointedBlock::inner(tape, saved.start);
  const NoGrad no_grad(inner);
  const Var made = saved.block(inner.constant(x.values().data(), x.shape()));
  check(&made.tape() == &inner, "checkpoint", "the block returned a Var that is not made from its input");
  CheckpointedBlock::set_sites(tape, CheckpointedBlock::sites(inner));
  // The block's parameters may want gradients even where x does not.
  const Var y = tape.output_of_block(made.shape(), x.needs_gradient() || CheckpointedBlock::trains(inner));
  std::copy(made.values().begin(), made.values().end(), y.output_values().begin());
  inner.clear();
  return tape.record<checkpoint_backward>(y, std::move(saved));
}

}  // namespace heed
