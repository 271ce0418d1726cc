// The linear map: y = act(x Wᵀ + b) + residual, forward and backward. Weights lie as PyTorch has them:
// [outputs, inputs].
//
// Every sum is matmul's (heed/ops/matmul.h): one order of arithmetic for any shape and number of threads. A row of y,
// and of d_x, has the bits it has alone.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/activation.h"
#include "heed/ops/gradient.h"
#include "heed/ops/packed_matrix.h"

namespace heed {

// The parameters: a plain weight or one that was packed.
struct LinearParameters {
  View<const float, 2> weight{};         // [outputs, inputs]
  const PackedMatrix* packed = nullptr;  // [inputs, outputs]; where not null, `weight` is not read
  View<const float, 1> bias{};           // [outputs]; null: none

  int64_t outputs() const { return packed != nullptr ? packed->columns() : weight.size(0); }
  int64_t inputs() const { return packed != nullptr ? packed->rows() : weight.size(1); }
  Shape<2> shape() const { return {outputs(), inputs()}; }
  bool given() const { return packed != nullptr ? outputs() > 0 : weight.data() != nullptr; }
  bool rounded() const { return packed != nullptr && packed->storage() == WeightStorage::bf16; }
};

struct LinearOptions {
  Activation activation = Activation::none;
  View<const float, 2> residual{};  // [N, outputs]; null: none; may be y itself
  View<float, 2> derivative{};      // [N, outputs]: receives act'(x Wᵀ + b), which backward needs where there is an
                                    // activation; null: not kept
  Arena* arena = nullptr;           // where scratch memory comes from; with it, calls after the first allocate nothing
};

// x [N, inputs] → y [N, outputs]. The bits are the same with a weight packed in f32, and with or without
// derivative.
void linear_forward(View<const float, 2> x, const LinearParameters& parameters, View<float, 2> y,
                    const LinearOptions& options = {});

// What backward needs of forward.
struct LinearSaved {
  View<const float, 2> x;             // [N, inputs]
  View<const float, 2> derivative{};  // [N, outputs], as forward filled it; null without an activation
};

struct LinearGradients {
  InputGradient<2> x;       // [N, inputs]
  View<float, 2> weight{};  // [outputs, inputs]: added to
  View<float, 1> bias{};    // [outputs]: added to
  // Where x is itself act(z) of a map before: act'(z) [N, inputs], as that map's forward kept it. What is written for x
  // is then the gradient of z.
  View<const float, 2> x_derivative{};
};

// With d_z = derivative ∘ d_y:  d_x (+)= d_z W,  d_W += d_zᵀ x,  d_b += Σ_rows d_z (in the order of
// heed/ops/broadcast_sum.h). The gradient of the residual is d_y itself. d_x must not share memory with what is read;
// with an activation the rows of d_y are contiguous.
void linear_backward(const LinearSaved& saved, View<const float, 2> weight, View<const float, 2> d_y,
                     const LinearGradients& gradients, Arena* arena = nullptr);

}  // namespace heed
