// Dropout, as torch.nn.Dropout: on while the tape is training.
#pragma once

#include "heed/autograd/layer_ops.h"

namespace heed::nn {

struct Dropout {
  float probability = 0.5F;

  Var operator()(const Var& x) const { return dropout(x, probability); }

  void parts(auto&&) {}
};

}  // namespace heed::nn
