#include "heed/nn/feed_forward.h"

#include "heed/autograd/layer_ops.h"

namespace heed::nn {

Var GatedFeedForward::operator()(const Var& x, const LinearOpOptions& last) const {
  return down(glu(gate_up(x), activation), last);
}

}  // namespace heed::nn
