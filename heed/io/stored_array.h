// An array as it lies in a file: what npy and safetensors have in common once their headers are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/array.h"
#include "heed/io/dtype.h"
#include "heed/io/file.h"

namespace heed::io {

// As many as numpy's arrays may have.
inline constexpr size_t kMostDimensions = 64;

struct StoredArray {
  const Dtype* dtype = nullptr;
  std::vector<int64_t> shape{};
  int64_t offset = 0;          // of its first byte in the file
  bool first_fastest = false;  // Fortran order: the first index runs fastest
  std::string where{};         // "tensor 'x'" where a file has several
};

// The bytes of such an array; empty when they, or the elements without the dimensions of size 0, overflow int64, or do
// not end on a byte. Sizes are ≥ 0.
std::optional<int64_t> byte_count(const Dtype& dtype, const std::vector<int64_t>& shape);

// Reads and converts it, a piece at a time. The caller has checked that the file has all of its bytes. Refuses arrays
// without elements whose other sizes are great.
Array read_stored(const InputFile& file, const StoredArray& stored);

// Refuses tensors that files have no shape for: those that were never given one, and more than 64 dimensions.
void check_writable(const char* function, const Tensor& values);

}  // namespace heed::io
