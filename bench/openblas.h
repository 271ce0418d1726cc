// OpenBLAS, loaded at run time where it is installed: the peer of `heed bench matmul`. Never linked.
#pragma once

#include <optional>
#include <string>

#include "heed/core/view.h"

namespace heed::bench {

class OpenBlas {
 public:
  // Loads libopenblas.so.0, held to the instruction set in use. None where it is not installed.
  static std::optional<OpenBlas> load();

  void set_threads(int count) const { set_num_threads_(count); }

  // c [M, N] = a [M, K] b [K, N], all contiguous; the matrix-vector product where M is 1.
  void matmul(View<const float, 2> a, View<const float, 2> b, View<float, 2> c) const;

 private:
  using SetNumThreads = void (*)(int);
  using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float* a,
                         int row_a, const float* b, int row_b, float beta, float* c, int row_c);
  using Sgemv = void (*)(int order, int transpose, int m, int n, float alpha, const float* a, int row_a, const float* x,
                         int step_x, float beta, float* y, int step_y);

  SetNumThreads set_num_threads_ = nullptr;
  Sgemm sgemm_ = nullptr;
  Sgemv sgemv_ = nullptr;
};

}  // namespace heed::bench
