// bf16: the upper half of a float's bits. A storage format only: values are widened before any arithmetic.
#pragma once

#include <bit>
#include <cstdint>

namespace heed {

// Rounds to nearest, ties to even. NaN stays NaN; values beyond the largest bf16 become ∞.
constexpr uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Exact.
constexpr float from_bf16(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

}  // namespace heed
