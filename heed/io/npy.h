// npy: one array per file, as written by numpy.save.
#pragma once

#include <string>

#include "heed/core/tensor.h"
#include "heed/io/array.h"

namespace heed::io {

// Versions 1.0, 2.0 and 3.0; f2, f4, f8, bool, i1 to i8 and u1 to u8, little-endian; C and Fortran order. A header that
// does not match the file size is rejected before anything is allocated.
Array read_npy(const std::string& path);

// Writes f32 in C order, version 1.0, data aligned to 64 bytes; atomic (file.h).
void write_npy(const std::string& path, const Tensor& values);

}  // namespace heed::io
