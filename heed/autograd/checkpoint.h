// Activation checkpointing: a block whose intermediate values are not kept. Backward computes them again.
//
//     x = checkpoint(x, [&layer](const Var& in) { return layer(in); });
//
// The second run draws the same dropout, and its values have the same bits; gradients too, but for the order in which
// those of x are added where x is used several times. The block is called twice, so it must
// compute the same from the same input; what it refers to must live until backward. It may use only its input and
// parameters: a Var from outside belongs to another tape and is refused.
#pragma once

#include <functional>

#include "heed/autograd/var.h"

namespace heed {

Var checkpoint(const Var& x, std::function<Var(const Var&)> block);

}  // namespace heed
