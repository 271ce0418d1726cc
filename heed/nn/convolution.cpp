#include "heed/nn/convolution.h"

#include <cmath>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {

Conv1d::Conv1d(int64_t channels, int64_t outputs, int64_t kernel, const Conv1dOptions& options)
    : geometry{options.stride, options.padding, options.dilation, options.groups} {
  constexpr const char* kName = "nn::Conv1d";
  check(channels > 0 && outputs > 0 && kernel > 0, kName, channels, " channels, ", outputs, " outputs and a kernel of ",
        kernel, "; all must be above 0");
  check(options.stride > 0 && options.dilation > 0 && options.padding >= 0, kName, "stride ", options.stride,
        ", dilation ", options.dilation, " and padding ", options.padding,
        "; stride and dilation must be above 0, padding not below");
  check(options.groups > 0 && channels % options.groups == 0 && outputs % options.groups == 0, kName, options.groups,
        " groups do not divide ", channels, " channels and ", outputs, " outputs");
  weight = Parameter({outputs, channels / options.groups, kernel});
  if (options.bias) bias = Parameter({outputs});
}

Var Conv1d::operator()(const Var& x, Activation activation) const {
  Tape& tape = x.tape();
  return conv1d(x, tape.parameter(weight), tape.optional_parameter(bias), geometry, activation);
}

// Uniform in ±1/√inputs, both.
void Conv1d::initialise(Initialiser& draw) {
  const int64_t inputs = weight.count() / weight.shape()[0];
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)));
  draw.uniform(weight, -bound, bound);
  draw.uniform(bias, -bound, bound);
}

}  // namespace heed::nn
