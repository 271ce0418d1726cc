// How every x_backward of the library writes gradients (except rotary_backward, which is a rotation and overwrites):
//   - the gradient of an input is overwritten or added to, as the caller says: the first consumer of a tensor that
//     computes its gradient overwrites it, the others add;
//   - the gradient of a parameter is always added to: the caller sets it to 0 before the first backward of a step;
//   - a null view skips that gradient; only attention needs all of d_q, d_k and d_v.
#pragma once

#include "heed/core/view.h"

namespace heed {

// The destination of an input's gradient. A view without a flag is overwritten.
template <int N>
struct InputGradient {
  View<float, N> view;
  bool add = false;

  InputGradient() = default;
  InputGradient(View<float, N> to, bool adds = false) : view(to), add(adds) {}
};

}  // namespace heed
