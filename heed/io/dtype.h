// The number formats of files, and their way to f32. Files and this machine are little-endian.
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
  std::string_view name;         // as heed says it: "f32"
  std::string_view npy;          // "f4"; empty where numpy has none
  std::string_view safetensors;  // "F32"
  int bits = 0;
  bool readable = true;  // false: its size is known, so that files with it can be opened, but it has no way to f32
};

// Null when there is no such format.
const Dtype* dtype_of_npy(std::string_view name);
const Dtype* dtype_of_safetensors(std::string_view name);

// Converts values until one does not fit, and returns how many it did: all of them when each fits. Exact, but for f64,
// which is rounded to the nearest. What does not fit: whole numbers that f32 cannot hold exactly, finite f64 beyond
// the range of f32, bool bytes other than 0 and 1.
size_t decode(const Dtype& dtype, const std::byte* from, std::span<float> to);

// Why the value at `from` does not fit, as the end of a sentence about it.
std::string why_not(const Dtype& dtype, const std::byte* from);

}  // namespace heed::io
