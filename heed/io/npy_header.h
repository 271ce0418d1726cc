// The header of an npy file: \x93NUMPY, version, length, and a Python dictionary in text.
#pragma once

#include <string_view>

#include "heed/io/stored_array.h"

namespace heed::io {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

// What the header says, once it is known to describe exactly the bytes that follow it.
StoredArray read_npy_header(const InputFile& file);

}  // namespace heed::io
