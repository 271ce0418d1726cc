#include "heed/nn/patch_embedding.h"

#include <cmath>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/linear_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {

PatchEmbedding::PatchEmbedding(int64_t channels, int64_t width, int64_t patch, const PatchEmbeddingOptions& options) {
  check(channels > 0 && width > 0 && patch > 0, "nn::PatchEmbedding", channels, " channels, width ", width,
        " and patches of ", patch, "; all must be above 0");
  weight = Parameter({width, channels, patch, patch});
  if (options.bias) bias = Parameter({width});
}

Var PatchEmbedding::operator()(const Var& x) const {
  const int64_t channels = weight.shape()[1];
  const int64_t patch = weight.shape()[2];
  check(x.rank() == 4 && x.size(1) == channels && x.size(2) % patch == 0 && x.size(3) % patch == 0,
        "nn::PatchEmbedding", "x has shape ", x.shape(), ", expected [B, ", channels,
        ", height, width] with both sizes multiples of ", patch);
  Tape& tape = x.tape();
  const int64_t down = x.size(2) / patch;
  const int64_t across = x.size(3) / patch;
  // [B, c, down, p, across, p] → [B, down, across, c, p, p]: the pixels of a patch in the order of the weight.
  const Var pixels = permute(x.reshape({x.size(0), channels, down, patch, across, patch}), {0, 2, 4, 1, 3, 5});
  const Var rows = pixels.reshape({x.size(0), down * across, channels * patch * patch});
  return linear(rows, tape.parameter(weight).reshape({weight.shape()[0], -1}), tape.optional_parameter(bias));
}

// As of a convolution: uniform in ±1/√inputs.
void PatchEmbedding::initialise(Initialiser& draw) {
  const int64_t inputs = weight.count() / weight.shape()[0];
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)));
  draw.uniform(weight, -bound, bound);
  draw.uniform(bias, -bound, bound);
}

}  // namespace heed::nn
