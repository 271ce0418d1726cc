// Initialiser: the initial distributions of parameters, drawn by counter: a model's values depend on the seed and the
// order of its parts only.
#pragma once

#include <cstdint>

#include "heed/autograd/parameter.h"
#include "heed/core/rng.h"

namespace heed::nn {

class Initialiser {
 public:
  explicit Initialiser(const Rng& rng) : rng_(rng) {}

  // Absent parameters are passed over.
  void constant(Parameter& parameter, float value);
  void uniform(Parameter& parameter, float low, float high);
  void normal(Parameter& parameter, float deviation);
  // Uniform in ±√(6 / (inputs + outputs)) for a weight [outputs, inputs, …]: Glorot and Bengio's.
  void xavier_uniform(Parameter& weight);

 private:
  Rng rng_;
  uint64_t counter_ = 0;
};

}  // namespace heed::nn
