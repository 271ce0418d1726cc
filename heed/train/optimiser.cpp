#include "heed/train/optimiser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/core/error.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"
#include "heed/train/optimiser_kernel.h"

namespace heed {
namespace {

constexpr const char* kStep = "Optimiser::step";

void check_factor(const char* name, const char* option, double value) {
  check(value >= 0.0 && std::isfinite(value), name, option, " is ", value, ", expected a finite number, 0 or more");
}

void check_share(const char* name, const char* option, double value) {
  check(value >= 0.0 && value < 1.0, name, option, " is ", value, ", expected a number in [0, 1)");
}

void check_rule(const char* name, const SGDOptions& options) {
  check_factor(name, "momentum", options.momentum);
  check(std::isfinite(options.dampening), name, "dampening is ", options.dampening, ", expected a finite number");
  check(!options.nesterov || (options.momentum > 0.0 && options.dampening == 0.0), name,
        "nesterov needs momentum and no dampening, but momentum is ", options.momentum, " and dampening ",
        options.dampening);
}

template <bool decoupled>
void check_rule(const char* name, const AdamOptionsOf<decoupled>& options) {
  check_share(name, "beta1", options.beta1);
  check_share(name, "beta2", options.beta2);
  check_factor(name, "eps", options.eps);
}

template <class Options>
void check_options(const char* name, const Options& options) {
  check_factor(name, "lr", options.lr);
  check_factor(name, "weight_decay", options.weight_decay);
  check_factor(name, "clip_norm", options.clip_norm);
  for (const ParameterGroup& group : options.groups) {
    check(group.contains != nullptr, name, "groups[", &group - options.groups.data(),
          "].contains is not set; say which parameters the group has");
    check_factor(name, "lr_factor of a group", group.lr_factor);
    check_factor(name, "weight_decay of a group", group.weight_decay.value_or(0.0));
  }
  check_rule(name, options);
}

template <class Rule>
Rule checked(const char* name, Rule rule) {
  std::visit([&](const auto& options) { check_options(name, options); }, rule);
  return rule;
}

// What the number of the step and the clipping decide, for all parameters.
struct StepNumbers {
  bool is_first;
  double gradient_scale;
  double correction1 = 1.0;  // 1 - beta1^t and 1 - beta2^t, in step t
  double correction2 = 1.0;
};

StepNumbers step_numbers(const SGDOptions&, int64_t step, double gradient_scale) {
  return {.is_first = step == 1, .gradient_scale = gradient_scale};
}

template <bool decoupled>
StepNumbers step_numbers(const AdamOptionsOf<decoupled>& options, int64_t step, double gradient_scale) {
  return {.is_first = step == 1,
          .gradient_scale = gradient_scale,
          .correction1 = 1.0 - std::pow(options.beta1, static_cast<double>(step)),
          .correction2 = 1.0 - std::pow(options.beta2, static_cast<double>(step))};
}

SgdCoefficients coefficients(const SGDOptions& options, const StepNumbers& numbers, double lr, double weight_decay) {
  return {.gradient_scale = static_cast<float>(numbers.gradient_scale),
          .weight_decay = static_cast<float>(weight_decay),
          .momentum = static_cast<float>(options.momentum),
          .gain = static_cast<float>(numbers.is_first ? 1.0 : 1.0 - options.dampening),
          .lr = static_cast<float>(lr),
          .nesterov = options.nesterov};
}

template <bool decoupled>
AdamCoefficients coefficients(const AdamOptionsOf<decoupled>& options, const StepNumbers& numbers, double lr,
                              double weight_decay) {
  return {.gradient_scale = static_cast<float>(numbers.gradient_scale),
          .coupled_decay = static_cast<float>(decoupled ? 0.0 : weight_decay),
          .kept = static_cast<float>(decoupled ? 1.0 - lr * weight_decay : 1.0),
          .first_gain = static_cast<float>(1.0 - options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .second_gain = static_cast<float>(1.0 - options.beta2),
          .root_scale = static_cast<float>(1.0 / std::sqrt(numbers.correction2)),
          .eps = static_cast<float>(options.eps),
          .step_size = static_cast<float>(lr / numbers.correction1),
          .coupled = !decoupled};
}

template <Isa isa>
void update_part(const SgdCoefficients& coefficients, const SlabPart& part) {
  sgd_kernel<isa>(coefficients, part);
}

template <Isa isa>
void update_part(const AdamCoefficients& coefficients, const SlabPart& part) {
  adam_kernel<isa>(coefficients, part);
}

}  // namespace

Optimiser::Optimiser(const char* name, const std::vector<nn::NamedParameter>& parameters, Rule rule)
    : rule_(checked(name, std::move(rule))),
      slabs_(name, parameters),
      sums_(slabs_.layout().segments().size()),
      learning_rate_(std::visit([](const auto& options) { return options.lr; }, rule_)) {
  for (const SlabLayout::Entry& entry : slabs_.layout().entries()) settings_.push_back(settings_of(entry));
  const auto* const sgd = std::get_if<SGDOptions>(&rule_);
  if (sgd == nullptr || sgd->momentum > 0.0) first_ = slabs_.layout().allocate();
  if (sgd == nullptr) second_ = slabs_.layout().allocate();
}

Optimiser::Settings Optimiser::settings_of(const SlabLayout::Entry& entry) const {
  return std::visit(
      [&](const auto& options) -> Settings {
        const bool decays = options.decay == Decay::all || entry.shape.rank() >= 2;
        const double weight_decay = decays ? options.weight_decay : 0.0;
        for (const ParameterGroup& group : options.groups) {
          if (group.contains(entry.name, entry.shape)) {
            return {group.lr_factor, group.weight_decay.value_or(weight_decay)};
          }
        }
        return {1.0, weight_decay};
      },
      rule_);
}

double Optimiser::step() {
  slabs_.check_held(kStep);
  const double norm = std::sqrt(sum_of_squares());
  const double clip_norm = std::visit([](const auto& options) { return options.clip_norm; }, rule_);
  update(clip_norm > 0.0 ? std::min(1.0, clip_norm / (norm + 1e-6)) : 1.0);
  slabs_.layout().mark_changed();
  gradient_norm_ = norm;
  ++steps_;
  return norm;
}

// Of all gradients: the sums of segments, added in order.
double Optimiser::sum_of_squares() {
  const SlabLayout& layout = slabs_.layout();
  dispatch([&]<Isa isa>() {
    parallel_for(layout.tasks(), [&](int64_t task, int) {
      layout.for_each_segment(task, [&](size_t i) {
        const SlabLayout::Segment& segment = layout.segments()[i];
        const float* const gradients = slabs_.gradients() + layout.offset(segment);
        sums_[i] = slabs_.frozen(segment.entry)
                       ? 0.0
                       : sum_of_squares_kernel<isa>(gradients, round_up(segment.count, kSlabUnit));
      });
    });
  });
  double sum = 0.0;
  for (size_t i = 0; i < sums_.size(); ++i) {
    check(std::isfinite(sums_[i]), kStep, "the gradient of '", layout.entries()[layout.segments()[i].entry].name,
          "' is not finite in step ", steps_ + 1,
          "; no parameter was changed, and the gradients stay until zero_gradients(): lower the learning rate, clip "
          "the gradients, or look for what is not finite in the data");
    sum += sums_[i];
  }
  return sum;
}

void Optimiser::update(double gradient_scale) {
  const SlabLayout& layout = slabs_.layout();
  const auto at = [](const std::shared_ptr<float[]>& slab, int64_t offset) {
    return slab == nullptr ? nullptr : slab.get() + offset;
  };
  std::visit(
      [&](const auto& options) {
        const StepNumbers numbers = step_numbers(options, steps_ + 1, gradient_scale);
        dispatch([&]<Isa isa>() {
          parallel_for(layout.tasks(), [&](int64_t task, int) {
            layout.for_each_segment(task, [&](size_t i) {
              const SlabLayout::Segment& segment = layout.segments()[i];
              const int64_t offset = layout.offset(segment);
              if (slabs_.frozen(segment.entry)) {  // what arrived before it was frozen is dropped
                std::fill_n(slabs_.gradients() + offset, segment.count, 0.0F);
                return;
              }
              const Settings& settings = settings_[segment.entry];
              update_part<isa>(
                  coefficients(options, numbers, learning_rate_ * settings.lr_factor, settings.weight_decay),
                  {.count = round_up(segment.count, kSlabUnit),
                   .values = slabs_.values() + offset,
                   .gradients = slabs_.gradients() + offset,
                   .first = at(first_, offset),
                   .second = at(second_, offset)});
            });
          });
        });
      },
      rule_);
}

void Optimiser::zero_gradients() {
  slabs_.check_held("Optimiser::zero_gradients");
  std::fill_n(slabs_.gradients(), slabs_.layout().size(), 0.0F);
}

void Optimiser::set_learning_rate(double lr) {
  check_factor("Optimiser::set_learning_rate", "the learning rate", lr);
  learning_rate_ = lr;
}

std::vector<StateSlab> Optimiser::state_slabs() const {
  if (second_ != nullptr) return {{"exp_avg", first_.get()}, {"exp_avg_sq", second_.get()}};
  if (first_ != nullptr) return {{"momentum_buffer", first_.get()}};
  return {};
}

OptimiserState Optimiser::state() const {
  return {.steps = steps_, .learning_rate = learning_rate_, .tensors = state_tensors(slabs_.layout(), state_slabs())};
}

void Optimiser::restore(const OptimiserState& state) {
  constexpr const char* kName = "Optimiser::restore";
  check(state.steps >= 0, kName, "the state has ", state.steps, " steps, expected 0 or more");
  check_factor(kName, "the learning rate of the state", state.learning_rate);
  restore_state_tensors(kName, slabs_.layout(), state_slabs(), state.tensors);
  steps_ = state.steps;
  learning_rate_ = state.learning_rate;
}

}  // namespace heed
