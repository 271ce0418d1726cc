#include "heed/nn/linear.h"

#include <cmath>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {

Linear::Linear(int64_t inputs, int64_t outputs, const LinearOptions& options) {
  check(inputs > 0 && outputs > 0, "nn::Linear", inputs, " inputs and ", outputs, " outputs; both must be above 0");
  weight = Parameter({outputs, inputs});
  if (options.bias) bias = Parameter({outputs});
}

Var Linear::operator()(const Var& x, const LinearOpOptions& options) const {
  Tape& tape = x.tape();
  return linear(x, tape.parameter(weight), tape.optional_parameter(bias), options);
}

// Uniform in ±1/√inputs, both.
void Linear::initialise(Initialiser& draw) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(weight.shape()[1])));
  draw.uniform(weight, -bound, bound);
  draw.uniform(bias, -bound, bound);
}

}  // namespace heed::nn
