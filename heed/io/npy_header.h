// The header of an npy file: \x93NUMPY, version, length, and a Python dict as text.
#pragma once

#include <string_view>

#include "heed/io/stored_array.h"

namespace heed::io {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// Parses the header and checks that it describes exactly the bytes that follow it.
StoredArray read_npy_header(const InputFile& file);

}  // namespace heed::io
