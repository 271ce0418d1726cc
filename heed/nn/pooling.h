// Pooling and Flatten: modules without parameters, as torch.nn has them, on sequences with channels last [B, T, C] and
// on images [..., H, W] (heed/autograd/convolution_ops.h).
#pragma once

#include <cstdint>
#include <span>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/convolution_ops.h"
#include "heed/core/error.h"

namespace heed::nn {

// x [B, T, C] → [B, positions, C]: nn::MaxPool1d pool{{.kernel = 2}}.
struct MaxPool1d {
  PoolOptions options;

  Var operator()(const Var& x) const { return max_pool1d(x, options); }
  void parts(auto&&) {}
};

struct AvgPool1d {
  PoolOptions options;

  Var operator()(const Var& x) const { return avg_pool1d(x, options); }
  void parts(auto&&) {}
};

// x [..., H, W] → [..., positions, positions].
struct MaxPool2d {
  PoolOptions options;

  Var operator()(const Var& x) const { return max_pool2d(x, options); }
  void parts(auto&&) {}
};

struct AvgPool2d {
  PoolOptions options;

  Var operator()(const Var& x) const { return avg_pool2d(x, options); }
  void parts(auto&&) {}
};

// x [B, T, C] → [B, C], over the first lengths[b] rows of item b; no lengths: over all.
struct GlobalMaxPool {
  Var operator()(const Var& x, std::span<const int64_t> lengths = {}) const { return global_max_pool(x, lengths); }
  void parts(auto&&) {}
};

struct GlobalMeanPool {
  Var operator()(const Var& x, std::span<const int64_t> lengths = {}) const { return global_mean_pool(x, lengths); }
  void parts(auto&&) {}
};

// x [B, ...] → [B, all the rest].
struct Flatten {
  // Sequences [B, T, C] come out in the order of PyTorch's [B, C, T]: a linear map that follows has the weight that it
  // has there. It costs a transpose.
  bool channels_first = false;

  Var operator()(const Var& x) const {
    check(x.rank() >= 1, "nn::Flatten", "x is a single number; expected [B, ...]");
    check(!channels_first || x.rank() == 3, "nn::Flatten", "x has shape ", x.shape(),
          ", expected [B, T, C] for channels_first");
    int64_t rest = 1;
    for (int i = 1; i < x.rank(); ++i) rest *= x.size(i);
    return (channels_first ? transpose(x, 1, 2) : x).reshape({x.size(0), rest});
  }
  void parts(auto&&) {}
};

}  // namespace heed::nn
