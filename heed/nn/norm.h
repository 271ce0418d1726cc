// LayerNorm and RMSNorm over the last dimension, as torch.nn has them.
#pragma once

#include <cstdint>
#include <optional>

#include "heed/autograd/parameter.h"
#include "heed/autograd/var.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

struct LayerNormOptions {
  float eps = 1e-5F;
  bool affine = true;  // a weight and a bias
  bool bias = true;    // false: only the weight
};

struct LayerNorm {
  explicit LayerNorm(int64_t width, const LayerNormOptions& options = {});

  Parameter weight;  // [width]
  Parameter bias;    // [width]
  float eps = 1e-5F;

  Var operator()(const Var& x) const;

  void parts(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void initialise(Initialiser& draw);
};

struct RMSNormOptions {
  std::optional<float> eps{};  // unset: the epsilon of f32
  bool affine = true;
};

struct RMSNorm {
  explicit RMSNorm(int64_t width, const RMSNormOptions& options = {});

  Parameter weight;  // [width]
  std::optional<float> eps;

  Var operator()(const Var& x) const;

  void parts(auto&& visit) { visit("weight", weight); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
