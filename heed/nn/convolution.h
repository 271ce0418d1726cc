// Conv1d: convolution over time, with the parameters of torch.nn.Conv1d.
//
// Sequences have channels last: x [B, T, channels] → [B, positions, outputs], as nn::Embedding gives and attention
// takes them. PyTorch's are [B, channels, T]: transpose(x, 1, 2) goes from one to the other. State dicts go both ways
// unchanged.
#pragma once

#include <cstdint>

#include "heed/autograd/convolution_ops.h"
#include "heed/autograd/parameter.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

struct Conv1dOptions {
  int64_t stride = 1;
  int64_t padding = 0;   // zeros at each end
  int64_t dilation = 1;  // from a tap of the kernel to the next
  int64_t groups = 1;    // divides channels and outputs
  bool bias = true;
};

struct Conv1d {
  Conv1d(int64_t channels, int64_t outputs, int64_t kernel, const Conv1dOptions& options = {});

  Parameter weight;  // [outputs, channels / groups, kernel]
  Parameter bias;    // [outputs]
  Conv1dGeometry geometry;

  // x [B, T, channels] → [B, positions, outputs], with an activation in the same pass.
  Var operator()(const Var& x, Activation activation = Activation::none) const;

  void parts(auto&& visit) { visit("weight", weight), visit("bias", bias); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
