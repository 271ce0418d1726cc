// Positions that are added to embeddings. Rotary positions and ALiBi act inside attention: see the options of
// MultiheadAttention.
#pragma once

#include <cstdint>

#include "heed/autograd/parameter.h"
#include "heed/autograd/tape.h"
#include "heed/autograd/var.h"
#include "heed/core/tensor.h"
#include "heed/nn/initialiser.h"

namespace heed::nn {

// x[b, t] + a learned row for each t, drawn like an embedding.
struct LearnedPositions {
  LearnedPositions(int64_t length, int64_t width);

  Parameter weight;  // [length, width]

  // x [B, T, C] with T at most `length`.
  Var operator()(const Var& x) const;

  void parts(auto&& visit) { visit("weight", weight); }
  void initialise(Initialiser& draw) { draw.normal(weight, 1.0F); }
};

// x[b, t] + the sines and cosines of the transformer's paper: for pair i of the width C,
//     sin(t / 10000^(2i / C)) at 2i,  cos(t / 10000^(2i / C)) at 2i + 1.
// No parameters.
struct SinusoidalPositions {
  SinusoidalPositions(int64_t length, int64_t width);

  Tensor table;  // [length, width]

  Var operator()(const Var& x) const;

  void parts(auto&&) {}
};

}  // namespace heed::nn
