// PackedMatrix: a weight [K, N] in the layout that the matmul kernel reads, packed once and used many times.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heed/core/large_memory.h"
#include "heed/core/memory.h"
#include "heed/core/view.h"
#include "heed/ops/panels.h"

namespace heed {

enum class WeightStorage {
  f32,
  bf16,  // half the bytes, rounded to nearest even when packed; arithmetic stays f32
};

// A regular value. The panels are packed for the instruction set in use: under another one, matmul throws an Error.
class PackedMatrix {
 public:
  PackedMatrix() = default;

  // Packs a [K, N] view of any strides: weight.transposed() for a weight in PyTorch's layout [N, K].
  explicit PackedMatrix(View<const float, 2> matrix, WeightStorage storage = WeightStorage::f32) : storage_(storage) {
    assign(matrix);
  }

  PackedMatrix(const PackedMatrix& other);
  PackedMatrix(PackedMatrix&& other) noexcept;
  PackedMatrix& operator=(PackedMatrix other) noexcept;
  ~PackedMatrix() = default;

  // Repacks in the same storage format after the values changed; keeps its memory if the size is the same.
  void assign(View<const float, 2> matrix);

  int64_t rows() const { return rows_; }               // K
  int64_t columns() const { return panels_.columns; }  // N
  Isa isa() const { return isa_; }                     // the instruction set it was packed for
  const PanelLayout& panels() const { return panels_; }
  WeightStorage storage() const { return storage_; }
  // Consecutive panels, each [K][panel width]; null in bf16.
  const float* data() const { return is_bf16() ? nullptr : floats(); }
  // Consecutive panels, each [⌈K/2⌉][panel width] words: rows 2i and 2i + 1 in the lower and upper halves (to_bf16 in
  // heed/core/bf16.h), zeros past K; null in f32.
  const uint32_t* bf16_data() const { return is_bf16() ? pairs() : nullptr; }
  // Size of the panels.
  size_t bytes() const { return bytes_of(rows_, panels_); }

 private:
  bool is_bf16() const { return storage_ == WeightStorage::bf16; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  uint32_t* pairs() const { return reinterpret_cast<uint32_t*>(data_); }
  size_t bytes_of(int64_t rows, const PanelLayout& panels) const {
    return static_cast<size_t>((is_bf16() ? divide_up<int64_t>(rows, 2) : rows) * panels.padded_columns()) * 4;
  }
  void allocate(size_t bytes);

  int64_t rows_ = 0;
  PanelLayout panels_;
  Isa isa_ = Isa::baseline;
  WeightStorage storage_ = WeightStorage::f32;
  AlignedArray<std::byte> small_;  // one of the two holds the panels
  LargeMemory large_;
  std::byte* data_ = nullptr;
  size_t capacity_ = 0;  // bytes
};

}  // namespace heed
