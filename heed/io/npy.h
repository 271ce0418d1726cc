// npy: one array a file, as numpy.save writes it.
#pragma once

#include <string>

#include "heed/core/tensor.h"
#include "heed/io/array.h"

namespace heed::io {

// Versions 1.0, 2.0 and 3.0; f2, f4, f8, bool, i1 to i8 and u1 to u8, little-endian; C and Fortran order. A header that
// does not fit the file's size is refused before anything is allocated.
Array read_npy(const std::string& path);

// f32 in C order, version 1.0, its numbers aligned to 64 bytes; atomically (file.h).
void write_npy(const std::string& path, const Tensor& values);

}  // namespace heed::io
