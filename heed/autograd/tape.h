// Tape: records the ops of a training step as they run, and runs them backwards.
//
//     Tape tape;
//     Var loss = cross_entropy(model(tape, batch), labels);   // records
//     loss.backward();                                        // adds to the gradients of the parameters
//     optimizer.step();
//     tape.clear();                                           // keeps its memory: the next step allocates nothing
//
// An op is a pair of plain functions and a small struct of what the second needs of the first:
//
//     struct CubeSaved { Var x; };
//     void cube_backward(const CubeSaved& saved, const Var& y);      // reads y.arrived(), writes x.destination()
//     Var cube(const Var& x) {
//       const Var y = x.tape().output(x.shape(), {x});
//       …fill y.output_values()…
//       return x.tape().record<cube_backward>(y, CubeSaved{x});
//     }
//
// One thread uses a tape at a time. heed/autograd/README.md explains the design.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "heed/autograd/parameter.h"
#include "heed/autograd/tape_observer.h"
#include "heed/autograd/var.h"
#include "heed/core/arena.h"
#include "heed/core/tensor.h"

namespace heed {

// What the random numbers of a step are drawn from. With the site (which dropout of the step it is) and the element,
// a mask of dropout is the same for any number of threads and again after a resume.
struct StepKey {
  uint64_t seed = 0;
  uint64_t step = 0;
};

class Tape {
 public:
  explicit Tape(const StepKey& key = {});
  Tape(const Tape&) = delete;  // not movable either: Vars point to it
  Tape& operator=(const Tape&) = delete;
  ~Tape();

  // Tensors enter the tape: copied, or read in place (the values must then stay until clear()).
  Var constant(const Tensor& tensor);
  Var constant(const float* values, const Dims& shape);
  // The same, and backward computes its gradient.
  Var leaf(const Tensor& tensor);
  Var leaf(const float* values, const Dims& shape);
  // Read in place; backward adds to its gradient unless it is frozen.
  Var parameter(const Parameter& parameter);
  // The same; an absent parameter gives an empty Var.
  Var optional_parameter(const Parameter& optional) { return optional.given() ? parameter(optional) : Var(); }

  // Is told of each op from now on; null: nobody is.
  void set_observer(TapeObserver* observer) { observer_ = observer; }
  // Forgets all Vars and keeps the memory. After a backward, the next step of dropout begins: how often a model is
  // evaluated in between changes no mask.
  void clear();

  // Is what runs now recorded, and is dropout on? See NoGrad and Evaluation.
  bool recording() const { return recording_; }
  bool training() const { return training_; }

  const StepKey& step_key() const { return key_; }
  void set_step_key(const StepKey& key) { key_ = key; }
  // The number of the next dropout of this step.
  uint64_t next_dropout_site() { return dropout_sites_++; }

  // For ops. A new Var to be filled; it needs a gradient if one of the inputs does and the tape is recording. Empty
  // inputs are passed over.
  Var output(const Dims& shape, std::initializer_list<Var> inputs);
  // For ops that reach parameters which are not among their inputs.
  Var output_of_block(const Dims& shape, bool needs_gradient);
  // For ops. Says what runs in backward: Backward(saved, y), called once a gradient arrived at y. Nothing is kept if y
  // needs no gradient. Returns y. An op with several outputs creates them one after the other, records the first, and
  // says how many follow it: their gradients are kept until then.
  template <auto Backward, class Saved>
  Var record(const Var& y, Saved saved, int32_t further_outputs = 0) {
    detail::tell<Backward>(observer_, Pass::forward);
    if (!needs_gradient(y)) return y;
    Node& node = node_of(y);
    void* const memory = step_.take<std::byte>(sizeof(Saved));
    node.saved = new (memory) Saved(std::move(saved));
    node.backward = [](const void* kept, const Var& output) {
      Backward(*static_cast<const Saved*>(kept), output);
      detail::tell<Backward>(output.tape().observer_, Pass::backward);
    };
    if constexpr (!std::is_trivially_destructible_v<Saved>) {
      node.destroy = [](void* kept) { static_cast<Saved*>(kept)->~Saved(); };
    }
    check(y.node_ + further_outputs < static_cast<int32_t>(nodes_.size()), "Tape::record", further_outputs,
          " further outputs: create them before the first is recorded");
    node.further_outputs = further_outputs;
    for (int32_t i = 1; i <= further_outputs; ++i) node_at(y.node_ + i).held = true;
    return y;
  }
  // For ops. Memory that lasts until clear(): what forward saves and backward reads.
  template <class T>
  T* keep(int64_t count) {
    return step_.take<T>(count);
  }
  Arena& step_memory() { return step_; }
  // For ops. Scratch of a call: pass it on as the arena of the functions called.
  Arena& scratch() { return scratch_; }

  // Memory of the step, in bytes.
  size_t used_bytes() const { return step_.used_bytes(); }
  size_t nodes() const { return nodes_.size(); }

 private:
  friend class Var;
  friend class NoGrad;
  friend class Evaluation;
  friend class CheckpointedBlock;

  struct Node {
    float* value = nullptr;
    float* gradient = nullptr;  // null: nothing arrived yet
    int64_t count = 0;
    Dims shape;
    void* saved = nullptr;
    void (*backward)(const void* saved, const Var& y) = nullptr;
    void (*destroy)(void* saved) = nullptr;
    int32_t further_outputs = 0;
    enum class Kind { constant, leaf, parameter, output } kind = Kind::constant;
    bool needs_gradient = false;
    bool keeps_gradient = false;  // leaves, parameters, and Vars that were told to
    bool held = false;            // its gradient is read by the backward of an output before it
  };
  // Keeps what the nodes of a parameter point to alive until clear().
  struct UsedParameter {
    std::shared_ptr<ParameterData> data;
    std::shared_ptr<float[]> value, gradient;  // no gradient: not wanted
    uint64_t version;
  };
  struct FreeGradient {
    float* memory;
    int64_t count;
  };

  Node& node_of(const Var& var);
  Node& node_at(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  bool needs_gradient(const Var& var) { return node_of(var).needs_gradient; }
  Var add_node(Node::Kind kind, float* value, const Dims& shape, bool needs_gradient);
  float* copied(const Tensor& tensor);
  Var var_of(int32_t node);

  void backward(const Var& from, const float* gradient);
  float* take_gradient(int64_t count);
  void release_gradient(Node& node);
  void destroy_saved();

  std::atomic<uint64_t>* lifetime_;
  Arena step_;     // values, saved structs and gradients of a step
  Arena scratch_;  // of single calls
  std::optional<Arena::Scope> step_scope_;
  std::vector<Node> nodes_;
  std::vector<UsedParameter> parameters_;
  std::vector<FreeGradient> free_gradients_;
  StepKey key_;
  uint64_t dropout_sites_ = 0;
  bool recording_ = true;
  bool training_ = true;
  bool ran_backward_ = false;
  TapeObserver* observer_ = nullptr;
  std::unique_ptr<Tape> inner_;  // where checkpointed blocks run
};

// While it lives, its tape records nothing: the same kernels run and nothing is saved for backward.
class NoGrad {
 public:
  explicit NoGrad(Tape& tape) : tape_(tape), before_(std::exchange(tape.recording_, false)) {}
  ~NoGrad() { tape_.recording_ = before_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape& tape_;
  bool before_;
};

// The same, and dropout is off: how a model is evaluated and used.
class Evaluation {
 public:
  explicit Evaluation(Tape& tape) : no_grad_(tape), tape_(tape), before_(std::exchange(tape.training_, false)) {}
  ~Evaluation() { tape_.training_ = before_; }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  NoGrad no_grad_;
  Tape& tape_;
  bool before_;
};

}  // namespace heed
