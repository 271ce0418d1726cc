// Parameter: a trainable tensor of a module, with its gradient.
//
// A regular value: a copy of a model has parameters of its own, and moving a model moves no numbers. An optimiser
// gathers the values and gradients of its parameters into slabs, which it then updates in one pass; the parameter
// keeps pointing to its part, and the slab lives as long as anything points to it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "heed/core/dims.h"
#include "heed/core/view.h"

namespace heed {

// What a Parameter refers to. Shared with the tapes and optimisers that use it, so that neither dangles when a model is
// moved or destroyed.
struct ParameterData {
  Dims shape;
  std::shared_ptr<float[]> value_memory;     // own memory or a slab
  std::shared_ptr<float[]> gradient_memory;  // null until the first backward or an optimiser needs it
  float* value = nullptr;
  float* gradient = nullptr;
  bool frozen = false;   // no gradient is computed for it
  uint64_t version = 0;  // counts changes of the values: backward refuses values that forward did not see

  int64_t count() const { return shape.count(); }
  std::span<float> values() const { return {value, static_cast<size_t>(count())}; }
  // Zeros until a backward adds to them.
  std::span<float> gradients();

  // Moves values and gradients into other memory, which the pointers keep alive.
  void move_to(std::shared_ptr<float[]> values, std::shared_ptr<float[]> gradients);
};

class Parameter {
 public:
  // Absent: a module without it (a linear map without a bias) does not list it.
  Parameter() = default;
  // Zeros.
  explicit Parameter(const Dims& shape);

  Parameter(const Parameter& other);
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter other) noexcept {
    data_.swap(other.data_);
    return *this;
  }
  ~Parameter() = default;

  bool given() const { return data_ != nullptr; }
  const Dims& shape() const { return data().shape; }
  int64_t count() const { return given() ? data_->count() : 0; }

  // Asking for values that may be changed counts as a change.
  std::span<float> values() { return changed().values(); }
  std::span<const float> values() const { return data().values(); }
  template <int N>
  View<float, N> value() {
    return {changed().value, shape().shape<N>()};
  }
  template <int N>
  View<const float, N> value() const {
    return {data().value, shape().shape<N>()};
  }

  // Zeros until a backward adds to them; an optimiser's step clears them.
  std::span<float> gradient() { return data().gradients(); }
  void zero_gradient();

  // A frozen parameter costs nothing in backward.
  bool frozen() const { return data().frozen; }
  void set_frozen(bool frozen) { data().frozen = frozen; }

  const std::shared_ptr<ParameterData>& shared() const { return data_; }

 private:
  ParameterData& data() const;
  ParameterData& changed() {
    ++data().version;
    return data();
  }

  std::shared_ptr<ParameterData> data_;
};

}  // namespace heed
