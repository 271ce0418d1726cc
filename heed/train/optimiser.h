// Optimisers: SGD, Adam and AdamW, with PyTorch's formulas and defaults.
//
//     AdamW optimiser(nn::parameters(model), {.lr = 1e-3, .clip_norm = 1.0});
//     …
//     loss.backward();
//     optimiser.step();                                   // uses and clears the gradients
//     optimiser.set_learning_rate(1e-3 * schedule(optimiser.steps()));
//
// Parameters that are frozen when the optimiser is made are not its own: unfreeze first, or make a new one. Parameters
// that are frozen later are left as they are until they are unfrozen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "heed/nn/module.h"
#include "heed/train/parameter_slabs.h"
#include "heed/train/state_tensors.h"

namespace heed {

// Which parameters weight decay applies to.
enum class Decay {
  all,       // as in PyTorch
  matrices,  // rank 2 and more: biases and the gains of norms do not decay
};

// Parameters with settings of their own. A parameter has those of the first group that contains it.
struct ParameterGroup {
  std::function<bool(std::string_view name, const Dims& shape)> contains;
  double lr_factor = 1.0;                   // multiplies the learning rate
  std::optional<double> weight_decay = {};  // for all in the group, whatever `decay` says; unset: the optimiser's
};

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;  // added to the gradient, times the weight
  bool nesterov = false;      // needs momentum, and no dampening
  Decay decay = Decay::all;
  std::vector<ParameterGroup> groups = {};
  double clip_norm = 0.0;  // largest norm of all gradients together; larger ones are scaled down to it. 0: not clipped
};

template <bool decoupled>
struct AdamOptionsOf {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = decoupled ? 0.01 : 0.0;  // decoupled: of the weight itself; otherwise added to the gradient
  Decay decay = Decay::all;
  std::vector<ParameterGroup> groups = {};
  double clip_norm = 0.0;  // as above
};
using AdamOptions = AdamOptionsOf<false>;
using AdamWOptions = AdamOptionsOf<true>;

// What a run continues from, beside the parameters.
struct OptimiserState {
  int64_t steps = 0;
  double learning_rate = 0.0;
  std::vector<StateTensor> tensors;  // SGD: momentum_buffer.NAME, if it has momentum; Adam: exp_avg and exp_avg_sq
};

// What all optimisers do; made as one of the classes below.
class Optimiser {
 public:
  Optimiser(const Optimiser&) = delete;
  Optimiser& operator=(const Optimiser&) = delete;
  Optimiser(Optimiser&&) noexcept = default;
  Optimiser& operator=(Optimiser&&) noexcept = default;
  ~Optimiser() = default;

  // Updates the parameters and sets their gradients to 0. Returns the norm of all gradients together, before clipping.
  // A gradient that is not finite, or a parameter that another optimiser took over, is an Error that names the
  // parameter; nothing has been written then. The bits do not depend on the number of threads. After the first step,
  // nothing is allocated.
  double step();

  // Sets the gradients to 0: what was accumulated is dropped.
  void zero_gradients();

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double lr);

  int64_t steps() const { return steps_; }                 // taken so far
  double gradient_norm() const { return gradient_norm_; }  // of the last step

  // The tensors are views of the optimiser's memory: save them before the next step.
  OptimiserState state() const;
  // Continues with the bits of a run that was not interrupted, if the parameters are also those of that time. Throws,
  // having written nothing, an Error that lists the tensors that are missing, unknown or misshapen.
  void restore(const OptimiserState& state);

  const ParameterSlabs& slabs() const { return slabs_; }

 protected:
  using Rule = std::variant<SGDOptions, AdamOptions, AdamWOptions>;
  Optimiser(const char* name, const std::vector<nn::NamedParameter>& parameters, Rule rule);

 private:
  // Of one parameter.
  struct Settings {
    double lr_factor;
    double weight_decay;
  };

  Settings settings_of(const SlabLayout::Entry& entry) const;
  double sum_of_squares();
  void update(double gradient_scale);
  std::vector<StateSlab> state_slabs() const;

  Rule rule_;
  ParameterSlabs slabs_;
  std::vector<Settings> settings_;   // of each entry
  std::shared_ptr<float[]> first_;   // momentum buffer or first moment; null for SGD without momentum
  std::shared_ptr<float[]> second_;  // second moment; null for SGD
  std::vector<double> sums_;         // of squares of gradients, for each segment
  double learning_rate_;
  double gradient_norm_ = 0.0;
  int64_t steps_ = 0;
};

class SGD : public Optimiser {
 public:
  explicit SGD(const std::vector<nn::NamedParameter>& parameters, const SGDOptions& options = {})
      : Optimiser("SGD", parameters, options) {}
};

class Adam : public Optimiser {
 public:
  explicit Adam(const std::vector<nn::NamedParameter>& parameters, const AdamOptions& options = {})
      : Optimiser("Adam", parameters, options) {}
};

class AdamW : public Optimiser {
 public:
  explicit AdamW(const std::vector<nn::NamedParameter>& parameters, const AdamWOptions& options = {})
      : Optimiser("AdamW", parameters, options) {}
};

}  // namespace heed
