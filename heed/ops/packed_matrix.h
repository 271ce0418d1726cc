// PackedMatrix: a weight [K, N] in the order in which the matmul kernel reads it, packed once and used many times.
#pragma once

#include "heed/core/large_memory.h"
#include "heed/core/memory.h"
#include "heed/core/view.h"
#include "heed/ops/panels.h"

namespace heed {

// A regular value. The panels suit the instruction set in use when it was packed: matmul refuses it under another one.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Packs a [K, N] view of any strides: weight.transposed() for a weight in PyTorch's layout [N, K].
  explicit PackedMatrix(View<const float, 2> matrix) { assign(matrix); }

  PackedMatrix(const PackedMatrix& other);
  PackedMatrix(PackedMatrix&& other) noexcept;
  PackedMatrix& operator=(PackedMatrix other) noexcept;
  ~PackedMatrix() = default;

  // Packs again, after a change of the values; keeps its memory when the size is the same.
  void assign(View<const float, 2> matrix);

  int64_t rows() const { return rows_; }               // K
  int64_t columns() const { return panels_.columns; }  // N
  Isa isa() const { return isa_; }                     // the instruction set it was packed for
  const PanelLayout& panels() const { return panels_; }
  const float* data() const { return data_; }  // panel after panel, each [K][panel width]

 private:
  size_t count() const { return static_cast<size_t>(rows_ * panels_.padded_columns()); }
  void allocate(size_t count);

  int64_t rows_ = 0;
  PanelLayout panels_;
  Isa isa_ = Isa::baseline;
  AlignedArray<float> small_;  // one of the two holds the panels
  LargeMemory large_;
  float* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace heed
