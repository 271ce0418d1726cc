// The number formats of files, their conversion to f32 and to i64, and from f32. Files and the host are little-endian.
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

// True for integers and bool.
bool is_whole(const Dtype& dtype);

// Converts values up to the first that does not fit and returns how many it converted. Exact, except that f64 is
// rounded to nearest. Values that do not fit: integers that f32 cannot hold exactly, finite f64 beyond the range of
// f32, bool bytes other than 0 and 1.
size_t decode(const Dtype& dtype, const std::byte* from, std::span<float> to);

// The same for whole formats. Values that do not fit: u64 beyond the range of i64, bool bytes other than 0 and 1.
size_t decode(const Dtype& dtype, const std::byte* from, std::span<int64_t> to);

// Why the value at `from` does not fit in f32 or i64, as the end of a sentence for error messages.
std::string why_not_f32(const Dtype& dtype, const std::byte* from);
std::string why_not_i64(const Dtype& dtype, const std::byte* from);

// How many values there are before the first that f16, bf16, f32 or f64 cannot hold: a finite value that would round
// to ∞. why_not_encoded says why, as above.
size_t count_encodable(const Dtype& dtype, std::span<const float> values);
std::string why_not_encoded(const Dtype& dtype, float value);

// Converts to f16, bf16, f32 or f64, rounding to nearest, ties to even. Values that do not fit become ∞.
void encode(const Dtype& dtype, std::span<const float> from, std::byte* to);

}  // namespace heed::io
