// The rule of gradients, for every x_backward of the library (but rotary_backward, which is a rotation and writes):
//   - of an input, a gradient is written or added, as the caller says: the first consumer of a tensor that computes its
//     gradient writes, the others add;
//   - of a parameter it is always added: the caller sets it to 0 before the first backward of a step;
//   - a null view is a gradient that nobody wants; attention alone wants d_q, d_k and d_v all given.
#pragma once

#include "heed/core/view.h"

namespace heed {

// Where the gradient of an input goes. A view alone is written to.
template <int N>
struct InputGradient {
  View<float, N> view;
  bool add = false;

  InputGradient() = default;
  InputGradient(View<float, N> to, bool adds = false) : view(to), add(adds) {}
};

}  // namespace heed
