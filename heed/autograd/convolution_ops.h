// Convolution and pooling on a tape. Sequences have channels last, [B, T, C], as embeddings and attention have them;
// PyTorch's have [B, C, T]: transpose(x, 1, 2) goes from one to the other. Images are PyTorch's, [..., H, W].
#pragma once

#include <cstdint>
#include <span>

#include "heed/autograd/var.h"
#include "heed/ops/activation.h"
#include "heed/ops/convolution.h"

namespace heed {

// x [B, T, C], weight [outputs, C / groups, kernel], bias [outputs] or empty → [B, positions, outputs], with an
// activation in the same pass.
Var conv1d(const Var& x, const Var& weight, const Var& bias = {}, const Conv1dGeometry& geometry = {},
           Activation activation = Activation::none);

// Windows over time.
struct PoolOptions {
  int64_t kernel = 1;
  int64_t stride = 0;   // 0: the kernel
  int64_t padding = 0;  // at each end, at most half of the kernel
};

// x [B, T, C] → [B, positions, C]. The gradient of a maximum goes to the first place that has it.
Var max_pool1d(const Var& x, const PoolOptions& options);
Var avg_pool1d(const Var& x, const PoolOptions& options);

// Images of rank 2 or more: x [..., H, W] → [..., positions, positions]. The options are those of both dimensions.
Var max_pool2d(const Var& x, const PoolOptions& options);
Var avg_pool2d(const Var& x, const PoolOptions& options);

// Over the first lengths[b] rows of x [B, T, C] → [B, C]; no lengths: over all. An item of length 0 gives 0 and gets no
// gradient. The lengths are copied.
Var global_max_pool(const Var& x, std::span<const int64_t> lengths = {});
Var global_mean_pool(const Var& x, std::span<const int64_t> lengths = {});

}  // namespace heed
