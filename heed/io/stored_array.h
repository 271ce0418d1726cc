// An array as stored in a file: what npy and safetensors have in common once their headers are read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/io/array.h"
#include "heed/io/dtype.h"
#include "heed/io/file.h"

namespace heed::io {

// numpy's limit.
inline constexpr size_t kMostDimensions = 64;

struct StoredArray {
  const Dtype* dtype = nullptr;
  std::vector<int64_t> shape{};
  int64_t offset = 0;          // of its first byte in the file
  bool first_fastest = false;  // Fortran order: the first index runs fastest
  std::string where{};         // "tensor 'x'" if a file has several
};

// The size of such an array in bytes; empty if it is not a whole number of bytes, or if it, or the product of the
// nonzero sizes, overflows int64. Sizes are ≥ 0.
std::optional<int64_t> byte_count(const Dtype& dtype, const std::vector<int64_t>& shape);

// Rejects empty arrays whose nonzero sizes are too large. Rows cost work even if they have no elements: a file of a few
// bytes must not cause a year of it.
void check_empty(const InputFile& file, const StoredArray& stored);

// Reads and converts it in chunks. The caller has checked that the file holds all of its bytes. Both call check_empty.
Array read_stored(const InputFile& file, const StoredArray& stored);
TensorOf<int64_t> read_stored_integers(const InputFile& file, const StoredArray& stored);  // is_whole(*stored.dtype)

// "element [1, 2]" for the element with this number in the file.
std::string element_text(const std::vector<int64_t>& shape, int64_t number, bool first_fastest = false);

// Rejects tensors that cannot be stored: those without a shape (default-constructed) or with more than 64 dimensions.
void check_writable(const char* function, const Tensor& values);

}  // namespace heed::io
