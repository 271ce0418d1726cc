// Var: a tensor on a tape. A small value that is valid until its tape is cleared or destroyed; using it after that is an
// Error, not undefined behaviour.
//
// Values are contiguous and row-major. The ops of heed/autograd make Vars from Vars; loss.backward() computes the
// gradients of the parameters and leaves that the loss depends on.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "heed/core/dims.h"
#include "heed/core/error.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

class Tape;

class Var {
 public:
  // Empty: an absent input, such as no bias.
  Var() = default;
  bool given() const { return tape_ != nullptr; }

  const Dims& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  int64_t size(int dimension) const { return shape_[dimension]; }  // negative dimensions count from the last
  int64_t count() const { return shape_.count(); }
  Tape& tape() const;

  // The numbers.
  std::span<const float> values() const;
  template <int N>
  View<const float, N> value() const {
    return {values().data(), shape_.shape<N>()};
  }
  // All but the last dimension as rows: [rows, size(-1)].
  View<const float, 2> rows() const { return {values().data(), rows_shape()}; }
  // The one number of a Var of one element, such as a loss.
  float item() const;

  // The same numbers under another shape; costs nothing. One size may be -1: what the others leave.
  Var reshape(Dims shape) const;
  // The same numbers; no gradient flows back through it.
  Var detach() const;

  // Does something that it depends on want a gradient?
  bool needs_gradient() const;
  // Computes the gradients of everything this depends on: of a loss of one element, or with the gradient of this. Once
  // for each tape until it is cleared.
  void backward() const;
  void backward(std::span<const float> gradient) const;

  // After backward, of leaves and of Vars that were told to keep theirs before; zeros if nothing flowed to it.
  void keep_gradient() const;
  std::span<const float> gradients() const;
  template <int N>
  View<const float, N> gradient() const {
    return {gradients().data(), shape_.shape<N>()};
  }

  // For ops (heed/autograd/tape.h).
  // The memory to fill, of a Var from Tape::output.
  std::span<float> output_values() const;
  template <int N>
  View<float, N> output() const {
    return {output_values().data(), shape_.shape<N>()};
  }
  View<float, 2> output_rows() const { return {output_values().data(), rows_shape()}; }
  // In backward: the gradient that arrived at an output; null if none did.
  const float* arrived() const;
  template <int N>
  View<const float, N> arrived() const {
    return {arrived(), shape_.shape<N>()};
  }
  View<const float, 2> arrived_rows() const { return {arrived(), rows_shape()}; }
  // In backward: where the gradient of an input goes, by the rule of heed/ops/gradient.h: null if it is not wanted, and
  // to be written or added. To be called exactly once for each input of the op, directly before it is computed.
  struct Destination {
    float* data = nullptr;
    bool add = false;
  };
  Destination destination() const;
  template <int N>
  InputGradient<N> input_gradient() const {
    const Destination to = destination();
    return {View<float, N>(to.data, shape_.shape<N>()), to.add};
  }
  InputGradient<2> input_gradient_rows() const {
    const Destination to = destination();
    return {View<float, 2>(to.data, rows_shape()), to.add};
  }
  // The same where the op always adds, as to parameters: the gradient is 0 before the first addition.
  float* added() const;
  template <int N>
  View<float, N> added() const {
    return {added(), shape_.shape<N>()};
  }
  // In backward: adds the gradient of `y` to this Var's, for an op whose derivative by this input is 1. Must be the last
  // use of the gradient of y: its memory is handed over where possible.
  void take_gradient_of(const Var& y) const;

 private:
  friend class Tape;
  Var(Tape* tape, const std::atomic<uint64_t>* lifetime, int32_t node, const Dims& shape)
      : tape_(tape),
        lifetime_(lifetime),
        generation_(lifetime->load(std::memory_order_relaxed)),
        node_(node),
        shape_(shape) {}

  Shape<2> rows_shape() const {
    const int64_t width = rank() == 0 ? 1 : size(-1);
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank(); ++i) rows *= size(i);
    return {rows, width};
  }

  Tape* tape_ = nullptr;
  const std::atomic<uint64_t>* lifetime_ = nullptr;
  uint64_t generation_ = 0;
  int32_t node_ = -1;
  Dims shape_;
};

}  // namespace heed
