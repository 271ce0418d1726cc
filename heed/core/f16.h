// f16: IEEE binary16, 1 sign, 5 exponent and 10 fraction bits. A storage format only: values are widened before any
// arithmetic.
#pragma once

#include <bit>
#include <cstdint>

namespace heed {

// Rounds to nearest, ties to even, also to the subnormal multiples of 2⁻²⁴. NaN stays NaN; values from 65520 on, half a
// step above the largest f16, become ∞.
constexpr uint16_t to_f16(float value) {
  // Every case is computed and one is selected, so that compilers turn loops into vectors.
  constexpr uint32_t kLeastNormal = 0x38800000U;  // 2⁻¹⁴
  constexpr uint32_t kBias = (127U - 15U) << 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const uint32_t magnitude = bits & 0x7fffffffU;
  // A carry out of the fraction belongs to the exponent.
  const uint32_t normal = (magnitude - kBias + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  // The fraction of a float in [0.5, 1) counts in steps of 2⁻²⁴: the sum is rounded to them.
  const float small = std::bit_cast<float>(magnitude < kLeastNormal ? magnitude : 0U);
  const uint32_t subnormal = std::bit_cast<uint32_t>(small + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  uint32_t result = magnitude < kLeastNormal ? subnormal : normal;
  result = magnitude >= 0x477ff000U ? 0x7c00U : result;  // 65520
  result = magnitude > 0x7f800000U ? nan : result;
  return static_cast<uint16_t>(sign | result);
}

// Exact.
constexpr float from_f16(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000U) << 16;
  const uint32_t magnitude = value & 0x7fffU;
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
  const uint32_t normal = (magnitude << 13) + ((127U - 15U) << 23);
  uint32_t result = magnitude < 0x400U ? subnormal : normal;
  result = magnitude >= 0x7c00U ? 0x7f800000U | (magnitude << 13) : result;
  return std::bit_cast<float>(sign | result);
}

}  // namespace heed
