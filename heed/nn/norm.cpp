#include "heed/nn/norm.h"

#include <algorithm>

#include "heed/autograd/layer_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {
namespace {

Parameter ones(int64_t width) {
  Parameter result({width});
  std::fill(result.values().begin(), result.values().end(), 1.0F);
  return result;
}

}  // namespace

LayerNorm::LayerNorm(int64_t width, const LayerNormOptions& options) : eps(options.eps) {
  check(width > 0, "nn::LayerNorm", "a width of ", width, "; it must be above 0");
  if (!options.affine) return;
  weight = ones(width);
  if (options.bias) bias = Parameter({width});
}

Var LayerNorm::operator()(const Var& x) const {
  Tape& tape = x.tape();
  return layer_norm(x, tape.optional_parameter(weight), tape.optional_parameter(bias), eps);
}

void LayerNorm::initialise(Initialiser& draw) {
  draw.constant(weight, 1.0F);
  draw.constant(bias, 0.0F);
}

RMSNorm::RMSNorm(int64_t width, const RMSNormOptions& options) : eps(options.eps) {
  check(width > 0, "nn::RMSNorm", "a width of ", width, "; it must be above 0");
  if (options.affine) weight = ones(width);
}

Var RMSNorm::operator()(const Var& x) const { return rms_norm(x, x.tape().optional_parameter(weight), eps); }

void RMSNorm::initialise(Initialiser& draw) { draw.constant(weight, 1.0F); }

}  // namespace heed::nn
