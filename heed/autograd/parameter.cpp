#include "heed/autograd/parameter.h"

#include <algorithm>
#include <utility>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"

namespace heed {
namespace {

std::shared_ptr<float[]> zeros(int64_t count) {
  AlignedArray<float> memory = allocate_aligned<float>(static_cast<size_t>(count));
  std::fill_n(memory.get(), count, 0.0F);
  return memory;
}

}  // namespace

std::span<float> ParameterData::gradients() {
  if (gradient == nullptr) {
    gradient_memory = zeros(count());
    gradient = gradient_memory.get();
  }
  return {gradient, static_cast<size_t>(count())};
}

void ParameterData::move_to(std::shared_ptr<float[]> new_values, std::shared_ptr<float[]> new_gradients) {
  std::copy_n(value, count(), new_values.get());
  if (gradient != nullptr) {
    std::copy_n(gradient, count(), new_gradients.get());
  } else {
    std::fill_n(new_gradients.get(), count(), 0.0F);
  }
  value_memory = std::move(new_values);
  gradient_memory = std::move(new_gradients);
  value = value_memory.get();
  gradient = gradient_memory.get();
}

Parameter::Parameter(const Dims& shape) {
  check_sizes("Parameter", "the parameter", shape);
  data_ = std::make_shared<ParameterData>();
  data_->shape = shape;
  data_->value_memory = zeros(shape.count());
  data_->value = data_->value_memory.get();
}

Parameter::Parameter(const Parameter& other) {
  if (!other.given()) return;
  *this = Parameter(other.shape());
  std::copy_n(other.data_->value, count(), data_->value);
  data_->frozen = other.data_->frozen;
}

void Parameter::zero_gradient() {
  if (data().gradient != nullptr) std::fill_n(data().gradient, count(), 0.0F);
}

ParameterData& Parameter::data() const {
  check(given(), "Parameter", "it is absent: check given() first");
  return *data_;
}

}  // namespace heed
