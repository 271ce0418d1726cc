#include "heed/nn/initialiser.h"

#include <algorithm>
#include <cmath>

#include "heed/core/error.h"

namespace heed::nn {

void Initialiser::constant(Parameter& parameter, float value) {
  if (parameter.given()) std::fill(parameter.values().begin(), parameter.values().end(), value);
}

void Initialiser::uniform(Parameter& parameter, float low, float high) {
  if (!parameter.given()) return;
  for (float& value : parameter.values()) value = low + (high - low) * rng_.uniform(counter_++);
}

void Initialiser::normal(Parameter& parameter, float deviation) {
  if (!parameter.given()) return;
  for (float& value : parameter.values()) value = deviation * rng_.normal(counter_++);
}

void Initialiser::xavier_uniform(Parameter& weight) {
  if (!weight.given()) return;
  check(weight.shape().rank() >= 2, "xavier_uniform", "a parameter of shape ", weight.shape(),
        " has no inputs and outputs: it takes a weight [outputs, inputs, …]");
  const int64_t field = weight.count() / std::max<int64_t>(1, weight.shape()[0] * weight.shape()[1]);
  const auto fans = static_cast<double>((weight.shape()[0] + weight.shape()[1]) * field);
  const auto bound = static_cast<float>(std::sqrt(6.0 / fans));
  uniform(weight, -bound, bound);
}

}  // namespace heed::nn
