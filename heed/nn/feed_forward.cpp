#include "heed/nn/feed_forward.h"

#include "heed/autograd/layer_ops.h"

namespace heed::nn {

Var GatedFeedForward::operator()(const Var& x, const Var& residual) const {
  return down_proj(glu(gate_proj(x), up_proj(x), activation), {.residual = residual});
}

}  // namespace heed::nn
