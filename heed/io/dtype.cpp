#include "heed/io/dtype.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <utility>

#include "heed/core/bf16.h"
#include "heed/core/error.h"
#include "heed/core/f16.h"

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

// Each format says whether a value fits in f32, and what it is as f32.
bool fits(Half) { return true; }
bool fits(Bf16) { return true; }
bool fits(float) { return true; }
bool fits(Bool value) { return value.byte <= 1; }

// True for finite values from `limit` on, which is half a step above the largest value of a format: the nearest is ∞.
template <std::floating_point Number>
bool rounds_to_infinity(Number value, Number limit) {
  return std::abs(value) >= limit && std::abs(value) <= std::numeric_limits<Number>::max();
}

bool fits(double value) { return !rounds_to_infinity(value, 0x1.ffffffp127); }

// No more than 24 bits from the first that is set to the last.
template <std::integral Whole>
bool fits(Whole value) {
  const uint64_t bits = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return bits == 0 || (bits >> std::countr_zero(bits)) < (uint64_t{1} << 24);
}

float to_float(Half value) { return from_f16(value.bits); }
float to_float(Bf16 value) { return from_bf16(value.bits); }
float to_float(Bool value) { return static_cast<float>(value.byte); }
template <class Number>
float to_float(Number value) {
  return static_cast<float>(value);
}

// The same for i64.
bool fits_i64(Bool value) { return fits(value); }
template <std::integral Whole>
bool fits_i64(Whole value) {
  return std::in_range<int64_t>(value);
}
int64_t to_i64(Bool value) { return value.byte; }
template <std::integral Whole>
int64_t to_i64(Whole value) {
  return static_cast<int64_t>(value);
}

// And from f32: each format says whether it can hold a value, and how.
bool can_hold(Half, float value) { return !rounds_to_infinity(value, 65520.0F); }
bool can_hold(Bf16, float value) { return !rounds_to_infinity(value, 0x1.ffp127F); }
bool can_hold(float, float) { return true; }
bool can_hold(double, float) { return true; }
void assign(Half& to, float value) { to.bits = to_f16(value); }
void assign(Bf16& to, float value) { to.bits = to_bf16(value); }
template <std::floating_point Number>
void assign(Number& to, float value) {
  to = value;
}

template <class Stored>
Stored load(const std::byte* from) {
  Stored value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Calls work with a value of the type that the format is stored as.
template <class Work>
auto with_float_type(const Dtype& dtype, const Work& work) {
  const std::string_view name = dtype.name;
  if (name == "f16") return work(Half{});
  if (name == "bf16") return work(Bf16{});
  if (name == "f32") return work(float{});
  check(name == "f64", "io::Dtype", name, " cannot be converted");
  return work(double{});
}

template <class Work>
auto with_whole_type(const Dtype& dtype, const Work& work) {
  const std::string_view name = dtype.name;
  if (name == "bool") return work(Bool{});
  if (name == "i8") return work(int8_t{});
  if (name == "i16") return work(int16_t{});
  if (name == "i32") return work(int32_t{});
  if (name == "i64") return work(int64_t{});
  if (name == "u8") return work(uint8_t{});
  if (name == "u16") return work(uint16_t{});
  if (name == "u32") return work(uint32_t{});
  check(name == "u64", "io::Dtype", name, " is no format of whole numbers");
  return work(uint64_t{});
}

template <class Work>
auto with_type(const Dtype& dtype, const Work& work) {
  return is_whole(dtype) ? with_whole_type(dtype, work) : with_float_type(dtype, work);
}

std::string shortest_text(std::floating_point auto value) {
  std::array<char, 32> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end};
}

std::string explain(Bool value) { return "bool byte " + std::to_string(value.byte) + " is neither 0 nor 1"; }
std::string explain(double value) { return shortest_text(value) + " is beyond the range of f32, ±3.4e38"; }
template <std::integral Whole>
std::string explain(Whole value) {
  return std::to_string(value) + " is a whole number that f32 cannot hold exactly";
}
template <class Always>
std::string explain(Always /*value*/) {
  return "fits";
}

std::string explain_i64(Bool value) { return explain(value); }
template <std::integral Whole>
std::string explain_i64(Whole value) {
  return std::to_string(value) + " is beyond the range of i64";
}

const Dtype* find(std::string_view Dtype::*member, std::string_view name) {
  const auto* found = std::find_if(kDtypes.begin(), kDtypes.end(), [&](const Dtype& d) { return d.*member == name; });
  return name.empty() || found == kDtypes.end() ? nullptr : found;
}

}  // namespace

const Dtype* dtype_of_npy(std::string_view name) { return find(&Dtype::npy, name); }

const Dtype* dtype_of_safetensors(std::string_view name) { return find(&Dtype::safetensors, name); }

bool is_whole(const Dtype& dtype) {
  return dtype.name == "bool" || dtype.name.front() == 'i' || dtype.name.front() == 'u';
}

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

size_t decode(const Dtype& dtype, const std::byte* from, std::span<int64_t> to) {
  return with_whole_type(dtype, [&]<class Stored>(Stored) {
    for (size_t i = 0; i < to.size(); ++i) {
      const auto value = load<Stored>(from + i * sizeof(Stored));
      if (!fits_i64(value)) return i;
      to[i] = to_i64(value);
    }
    return to.size();
  });
}

std::string why_not_f32(const Dtype& dtype, const std::byte* from) {
  return with_type(dtype, [&]<class Stored>(Stored) { return explain(load<Stored>(from)); });
}

std::string why_not_i64(const Dtype& dtype, const std::byte* from) {
  return with_whole_type(dtype, [&]<class Stored>(Stored) { return explain_i64(load<Stored>(from)); });
}

size_t count_encodable(const Dtype& dtype, std::span<const float> values) {
  constexpr size_t kBlock = 1024;  // a loop without an exit becomes vectors; the exit is between blocks
  return with_float_type(dtype, [&]<class Stored>(Stored format) {
    const auto fit = [&](float value) { return can_hold(format, value); };
    size_t begin = 0;
    for (; begin < values.size(); begin += kBlock) {
      int misfits = 0;
      for (const float value : values.subspan(begin, std::min(kBlock, values.size() - begin))) misfits += !fit(value);
      if (misfits > 0) break;
    }
    const auto rest = values.subspan(std::min(begin, values.size()));
    return static_cast<size_t>(std::find_if_not(rest.begin(), rest.end(), fit) - values.begin());
  });
}

std::string why_not_encoded(const Dtype& dtype, float value) {
  return shortest_text(value) + " is beyond the range of " + std::string(dtype.name) +
         (dtype.name == "f16" ? ", ±65504" : ", ±3.39e38");
}

void encode(const Dtype& dtype, std::span<const float> from, std::byte* to) {
  with_float_type(dtype, [from, to]<class Stored>(Stored) {
    for (size_t i = 0; i < from.size(); ++i) {
      Stored value;
      assign(value, from[i]);
      std::memcpy(to + i * sizeof(Stored), &value, sizeof(Stored));
    }
  });
}

}  // namespace heed::io
