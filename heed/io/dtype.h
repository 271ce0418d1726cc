// The number formats of files and their conversion to f32. Files and the host are little-endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heed::io {

static_assert(std::endian::native == std::endian::little, "the bytes of files are taken as they are");

struct Dtype {
  std::string_view name;         // Heed's name: "f32"
  std::string_view npy;          // "f4"; empty if numpy has no such type
  std::string_view safetensors;  // "F32"
  int bits = 0;
  bool readable = true;  // false: only its size is known, so that files with it can be opened; no conversion to f32
};

// Null if there is no such format.
const Dtype* dtype_of_npy(std::string_view name);
const Dtype* dtype_of_safetensors(std::string_view name);

// Converts values up to the first that does not fit and returns how many it converted. Exact, except that f64 is
// rounded to nearest. Values that do not fit: integers that f32 cannot hold exactly, finite f64 beyond the range of
// f32, bool bytes other than 0 and 1.
size_t decode(const Dtype& dtype, const std::byte* from, std::span<float> to);

// Why the value at `from` does not fit, as the end of a sentence for error messages.
std::string why_not(const Dtype& dtype, const std::byte* from);

}  // namespace heed::io
