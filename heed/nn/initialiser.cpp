#include "heed/nn/initialiser.h"

#include <algorithm>
#include <cmath>

#include "heed/core/error.h"

namespace heed::nn {
namespace {

// Inputs + outputs of a weight [outputs, inputs, …], each times the sizes that follow.
double fans(const char* function, const Parameter& weight) {
  check(weight.shape().rank() >= 2, function, "a parameter of shape ", weight.shape(),
        " has no inputs and outputs: it takes a weight [outputs, inputs, …]");
  const int64_t both = weight.shape()[0] + weight.shape()[1];
  const int64_t field = weight.count() / std::max<int64_t>(1, weight.shape()[0] * weight.shape()[1]);
  return static_cast<double>(both * field);
}

}  // namespace

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
  const auto bound = static_cast<float>(std::sqrt(6.0 / fans("xavier_uniform", weight)));
  uniform(weight, -bound, bound);
}

void Initialiser::xavier_normal(Parameter& weight) {
  if (!weight.given()) return;
  normal(weight, static_cast<float>(std::sqrt(2.0 / fans("xavier_normal", weight))));
}

}  // namespace heed::nn
