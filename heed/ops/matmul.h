// Matrix products on strided views: c = act(scale · a b + bias) + residual, f32.
//
// Views are strided, so a transposed factor is a view with permuted strides: b.transposed() reads a weight in PyTorch's
// layout [N, K] as the [K, N] factor.
//
// Order of arithmetic: each element of a b is one chain of fused multiply-adds over k, restarted every kBlockDepth
// steps, the block sums added in order. It is the same for every shape, layout and path, so an element has the same
// bits for any number of threads, alone or among other rows and columns, packed or not, batched or not.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/activation.h"
#include "heed/ops/packed_matrix.h"

namespace heed {

// Steps of k after which the chain of an element restarts.
inline constexpr int64_t kBlockDepth = 512;

// What happens to a product before it is stored, while it is still in registers or L1. A null view means "without".
template <int Rank>
struct MatmulOptionsOf {
  float scale = 1.0F;
  View<const float, 1> bias{};  // [N]
  Activation activation = Activation::none;
  View<const float, Rank> residual{};  // the shape of c; may be c itself
  bool accumulate = false;             // adds the result to what c holds
  Arena* arena = nullptr;  // where scratch memory comes from; with it, calls after the first allocate nothing
};
using MatmulOptions = MatmulOptionsOf<2>;
using BatchedMatmulOptions = MatmulOptionsOf<3>;

// a [M, K], b [K, N] → c [M, N]. c must not share memory with a, b or bias; the sum over K = 0 is 0.
void matmul(View<const float, 2> a, View<const float, 2> b, View<float, 2> c, const MatmulOptions& options = {});

// The same with a factor that was packed once: for weights. An Error when b was packed for another instruction set.
// With b in bf16, c has the bits it has with the f32 matrix of the rounded values.
void matmul(View<const float, 2> a, const PackedMatrix& b, View<float, 2> c, const MatmulOptions& options = {});

// One product an item: a [B, M, K], b [B, K, N] → c [B, M, N]. A batch stride of 0 in a or b repeats one matrix.
void matmul(View<const float, 3> a, View<const float, 3> b, View<float, 3> c, const BatchedMatmulOptions& options = {});

}  // namespace heed
