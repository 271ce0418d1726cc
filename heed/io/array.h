// Array: the numbers of a file as f32, and what they were in the file.
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

// The parts of "w.safetensors:NAME"; of anything else the whole as the file, and no name.
struct ArrayReference {
  std::string file;
  std::string name;
};
ArrayReference split_reference(const std::string& reference);

// A file, or a tensor of one: "q.npy", "w.safetensors:NAME". Refusals are FileErrors (file_error.h).
Array read_array(const std::string& reference);

}  // namespace heed::io
