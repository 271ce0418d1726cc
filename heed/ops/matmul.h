// Matrix products on strided views: c = act(scale · a b + bias) + residual, f32.
//
// Views are strided, so a transposed factor is a view with permuted strides: b.transposed() reads a weight in PyTorch's
// layout [N, K] as the [K, N] factor.
//
// Order of arithmetic: each element of a b is one chain of fused multiply-adds over k, restarted every kBlockDepth
// steps; the block sums are added in order. The order is the same for every shape, layout and code path, so an element
// has the same bits for any number of threads, alone or among other rows and columns, packed or not, batched or not.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/activation.h"
#include "heed/ops/packed_matrix.h"

namespace heed {

// An element's chain restarts after this many steps of k.
inline constexpr int64_t kBlockDepth = 512;

// The epilogue, applied while the product is still in registers or L1. Null views are skipped.
template <int Rank>
struct MatmulOptionsOf {
  float scale = 1.0F;
  View<const float, 1> bias{};  // [N]
  Activation activation = Activation::none;
  View<const float, Rank> residual{};  // same shape as c; may be c itself
  bool accumulate = false;             // c += result instead of c = result
  Arena* arena = nullptr;              // for scratch; with it, calls after the first allocate nothing
  View<float, Rank> pre_activation{};  // same shape as c: receives scale · a b + bias; null: not kept
  // Same shape as c. Not null: act'(activation_at) ∘ (scale · a b + bias) takes the place of
  // act(scale · a b + bias), as backward needs it.
  View<const float, Rank> activation_at{};
};
using MatmulOptions = MatmulOptionsOf<2>;
using BatchedMatmulOptions = MatmulOptionsOf<3>;

// a [M, K], b [K, N] → c [M, N]. c must not share memory with a, b or bias. For K = 0 the sum is 0.
void matmul(View<const float, 2> a, View<const float, 2> b, View<float, 2> c, const MatmulOptions& options = {});

// The same with a prepacked b, for weights. An Error if b was packed for another instruction set. With b in bf16, c has
// the same bits as with an f32 matrix of the rounded values.
void matmul(View<const float, 2> a, const PackedMatrix& b, View<float, 2> c, const MatmulOptions& options = {});

// Batched: a [B, M, K], b [B, K, N] → c [B, M, N]. A batch stride of 0 in a or b broadcasts one matrix.
void matmul(View<const float, 3> a, View<const float, 3> b, View<float, 3> c, const BatchedMatmulOptions& options = {});

}  // namespace heed
