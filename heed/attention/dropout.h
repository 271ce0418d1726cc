// Counter-based dropout: every code path draws the same mask, regardless of order, tiling and threads.
//
// Rng maps (seed, step, layer, item id, head, query) to the two 32-bit words of a row; each key of the row is then
// hashed in 32-bit lanes. The second word enters between the two rounds, so that rows whose first words are close
// together are not shifted copies of each other. The multipliers and shifts of the rounds are those of MurmurHash3's
// finaliser.
#pragma once

#include <cmath>
#include <cstdint>

#include "heed/attention/score_options.h"
#include "heed/core/rng.h"

namespace heed {

inline constexpr uint32_t kDropoutKeyStep = 0x9e3779b9U;  // 2^32 / golden ratio
inline constexpr uint32_t kDropoutFirstRound = 0x85ebca6bU;
inline constexpr uint32_t kDropoutSecondRound = 0xc2b2ae35U;

struct DropoutRow {
  uint32_t first = 0;
  uint32_t second = 0;
};

// Shared by all rows of one item and head.
inline Rng dropout_head(const Dropout& dropout, int64_t b, int64_t head) {
  const Rng call(Rng(Rng(dropout.seed).bits(dropout.step)).bits(dropout.layer));
  return Rng(Rng(call.bits(dropout.item_id(b))).bits(static_cast<uint64_t>(head)));
}

inline DropoutRow dropout_row(const Rng& head, int64_t query) {
  const uint64_t bits = head.bits(static_cast<uint64_t>(query));
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

// 24 random bits of a key. A weight is dropped if they are below dropout_threshold().
inline int32_t dropout_bits(const DropoutRow& row, int64_t key) {
  uint32_t x = row.first + static_cast<uint32_t>(key) * kDropoutKeyStep;
  x = (x ^ (x >> 16)) * kDropoutFirstRound;
  x = x ^ row.second;
  x = (x ^ (x >> 13)) * kDropoutSecondRound;
  return static_cast<int32_t>((x ^ (x >> 16)) >> 8);
}

// The probability in units of 2^-24, rounded.
inline int32_t dropout_threshold(const Dropout& dropout) {
  return static_cast<int32_t>(std::lround(static_cast<double>(dropout.probability) * 0x1p24));
}

// The factor of a kept weight: 1 / (1 - p).
inline double dropout_scale(const Dropout& dropout) { return 1.0 / (1.0 - static_cast<double>(dropout.probability)); }

}  // namespace heed
