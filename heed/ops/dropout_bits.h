// Counter-based dropout, shared by attention and the op: the mask is a function of a row and an element's index in it,
// regardless of order, tiling and threads.
//
// Rng maps a row to two 32-bit words; each element of the row is then hashed in 32-bit lanes. The second word enters
// between the two rounds, so that rows whose first words are close together are not shifted copies of each other. The
// multipliers and shifts of the rounds are those of MurmurHash3's finaliser.
#pragma once

#include <cmath>
#include <cstdint>

#include "heed/core/rng.h"

namespace heed {

inline constexpr uint32_t kDropoutElementStep = 0x9e3779b9U;  // 2^32 / golden ratio
inline constexpr uint32_t kDropoutFirstRound = 0x85ebca6bU;
inline constexpr uint32_t kDropoutSecondRound = 0xc2b2ae35U;

struct DropoutRow {
  uint32_t first = 0;
  uint32_t second = 0;
};

// The generator of one call: `site` tells the calls of a step apart.
inline Rng dropout_call(uint64_t seed, uint64_t step, uint64_t site) {
  return Rng(Rng(Rng(seed).bits(step)).bits(site));
}

inline DropoutRow dropout_row(const Rng& rows, int64_t row) {
  const uint64_t bits = rows.bits(static_cast<uint64_t>(row));
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

// 24 random bits of an element of the row. It is dropped if they are below dropout_threshold().
inline int32_t dropout_bits(const DropoutRow& row, int64_t element) {
  uint32_t x = row.first + static_cast<uint32_t>(element) * kDropoutElementStep;
  x = (x ^ (x >> 16)) * kDropoutFirstRound;
  x = x ^ row.second;
  x = (x ^ (x >> 13)) * kDropoutSecondRound;
  return static_cast<int32_t>((x ^ (x >> 16)) >> 8);
}

// The probability in units of 2^-24, rounded.
inline int32_t dropout_threshold(float probability) {
  return static_cast<int32_t>(std::lround(static_cast<double>(probability) * 0x1p24));
}

// The factor of a kept element: 1 / (1 - p).
inline double dropout_scale(float probability) { return 1.0 / (1.0 - static_cast<double>(probability)); }

}  // namespace heed
