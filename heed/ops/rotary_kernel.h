// Shared by rotary.cpp and its kernels. Internal.
#pragma once

#include "heed/ops/rotary.h"
#include "heed/simd/isa.h"

namespace heed {

// The heads of one token.
struct RotaryToken {
  const float* x = nullptr;  // head h begins at x + h · x_step
  float* out = nullptr;
  int64_t x_step = 0;
  int64_t out_step = 0;
  int64_t heads = 0;
  int64_t width = 0;             // of a head; elements past 2 · pairs are copied
  int64_t pairs = 0;             // that are rotated
  const float* table = nullptr;  // RotaryTable::row at its position
  RotaryPairing pairing = RotaryPairing::interleaved;
  bool backward = false;  // rotate by the negative angle
};

template <Isa>
void rotary_kernel(const RotaryToken& token);

}  // namespace heed
