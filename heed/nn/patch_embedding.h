// PatchEmbedding: images as tokens, for vision transformers. A convolution whose kernel is its stride, as
// torch.nn.Conv2d(channels, width, patch, stride = patch) computes it, with that module's parameters.
#pragma once

#include <cstdint>

#include "heed/autograd/parameter.h"
#include "heed/autograd/var.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

struct PatchEmbeddingOptions {
  bool bias = true;
};

struct PatchEmbedding {
  PatchEmbedding(int64_t channels, int64_t width, int64_t patch, const PatchEmbeddingOptions& options = {});

  Parameter weight;  // [width, channels, patch, patch]
  Parameter bias;    // [width]

  // x [B, channels, height, width of the image], both multiples of the patch → tokens [B, patches, width], row by row.
  Var operator()(const Var& x) const;

  void parts(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
