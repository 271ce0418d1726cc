#include "heed/io/dtype.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>

#include "heed/core/bf16.h"
#include "heed/core/error.h"

namespace heed::io {
namespace {

constexpr std::array kDtypes = {
    Dtype{"f16", "f2", "F16", 16},
    Dtype{"bf16", "", "BF16", 16},
    Dtype{"f32", "f4", "F32", 32},
    Dtype{"f64", "f8", "F64", 64},
    Dtype{"bool", "b1", "BOOL", 8},
    Dtype{"i8", "i1", "I8", 8},
    Dtype{"i16", "i2", "I16", 16},
    Dtype{"i32", "i4", "I32", 32},
    Dtype{"i64", "i8", "I64", 64},
    Dtype{"u8", "u1", "U8", 8},
    Dtype{"u16", "u2", "U16", 16},
    Dtype{"u32", "u4", "U32", 32},
    Dtype{"u64", "u8", "U64", 64},
    Dtype{"f4", "", "F4", 4, false},
    Dtype{"f6_e2m3", "", "F6_E2M3", 6, false},
    Dtype{"f6_e3m2", "", "F6_E3M2", 6, false},
    Dtype{"f8_e5m2", "", "F8_E5M2", 8, false},
    Dtype{"f8_e4m3", "", "F8_E4M3", 8, false},
    Dtype{"f8_e8m0", "", "F8_E8M0", 8, false},
    Dtype{"c64", "", "C64", 64, false},
};

struct Half {
  uint16_t bits;
};
struct Bf16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

// Each format says whether a value fits, and what it is as f32.
bool fits(Half) { return true; }
bool fits(Bf16) { return true; }
bool fits(float) { return true; }
bool fits(Bool value) { return value.byte <= 1; }

// Half a step above the largest float: from here on, the nearest is infinity.
bool fits(double value) { return !(std::abs(value) >= 0x1.ffffffp127) || std::isinf(value); }

// No more than 24 bits from the first that is set to the last.
template <std::integral Whole>
bool fits(Whole value) {
  const uint64_t bits = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return bits == 0 || (bits >> std::countr_zero(bits)) < (uint64_t{1} << 24);
}

// 1 sign, 5 exponent and 10 fraction bits.
float to_float(Half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000U) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fU;
  const uint32_t fraction = value.bits & 0x3ffU;
  if (exponent == 0) {  // zero, or a multiple of 2⁻²⁴
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? magnitude : -magnitude;
  }
  const uint32_t wide = exponent == 0x1fU ? 0xffU : exponent + 127 - 15;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}
float to_float(Bf16 value) { return from_bf16(value.bits); }
float to_float(Bool value) { return static_cast<float>(value.byte); }
template <class Number>
float to_float(Number value) {
  return static_cast<float>(value);
}

template <class Stored>
Stored load(const std::byte* from) {
  Stored value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Calls work with a value of the type that the format is stored as.
template <class Work>
auto with_type(const Dtype& dtype, const Work& work) {
  const std::string_view name = dtype.name;
  if (name == "f16") return work(Half{});
  if (name == "bf16") return work(Bf16{});
  if (name == "f32") return work(float{});
  if (name == "f64") return work(double{});
  if (name == "bool") return work(Bool{});
  if (name == "i8") return work(int8_t{});
  if (name == "i16") return work(int16_t{});
  if (name == "i32") return work(int32_t{});
  if (name == "i64") return work(int64_t{});
  if (name == "u8") return work(uint8_t{});
  if (name == "u16") return work(uint16_t{});
  if (name == "u32") return work(uint32_t{});
  check(name == "u64", "io::decode", name, " has no way to f32");
  return work(uint64_t{});
}

std::string explain(Bool value) { return "bool byte " + std::to_string(value.byte) + " is neither 0 nor 1"; }
std::string explain(double value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return std::string(digits.data(), end) + " is beyond the range of f32, ±3.4e38";
}
template <std::integral Whole>
std::string explain(Whole value) {
  return std::to_string(value) + " is a whole number that f32 cannot hold exactly";
}
template <class Always>
std::string explain(Always /*value*/) {
  return "fits";
}

const Dtype* find(std::string_view Dtype::*member, std::string_view name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.*member == name; });
  return name.empty() || found == kDtypes.end() ? nullptr : found;
}

}  // namespace

const Dtype* dtype_of_npy(std::string_view name) { return find(&Dtype::npy, name); }

const Dtype* dtype_of_safetensors(std::string_view name) { return find(&Dtype::safetensors, name); }

size_t decode(const Dtype& dtype, const std::byte* from, std::span<float> to) {
  return with_type(dtype, [&]<class Stored>(Stored) {
    for (size_t i = 0; i < to.size(); ++i) {
      const auto value = load<Stored>(from + i * sizeof(Stored));
      if (!fits(value)) return i;
      to[i] = to_float(value);
    }
    return to.size();
  });
}

std::string why_not(const Dtype& dtype, const std::byte* from) {
  return with_type(dtype, [&]<class Stored>(Stored) { return explain(load<Stored>(from)); });
}

}  // namespace heed::io
