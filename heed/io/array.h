// Array: the numbers of a file converted to f32, with the dtype they had in the file.
#pragma once

#include <cstdint>
#include <string>

#include "heed/core/tensor.h"
#include "heed/io/file_error.h"

namespace heed::io {

struct Array {
  Tensor values;      // row-major, whatever the order in the file
  std::string dtype;  // as stored: f16, bf16, f32, f64, bool, i8 … i64, u8 … u64. f64 was rounded, the rest is exact
  int64_t nonfinite = 0;  // how many values are NaN or infinite
};

// The two parts of "w.safetensors:NAME". Any other string is a file without a name.
struct ArrayReference {
  std::string file;
  std::string name;
};
ArrayReference split_reference(const std::string& reference);

// Reads a file, or one tensor of it: "q.npy", "w.safetensors:NAME". Throws FileError (file_error.h).
Array read_array(const std::string& reference);

}  // namespace heed::io
