// Peak compute and read probes: what `heed bench` measures against, in the instruction set in use.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// Runs `rounds` rounds of multiply-adds on independent chains of vectors in registers and returns the floating-point
// operations done. Fused if the instruction set has FMA; otherwise a multiply, then an add.
int64_t probe_multiply_add(int64_t rounds);

// Reads `count` floats (rounded down to a multiple of kProbeReadUnit) `passes` times with the widest loads.
void probe_read(const float* data, int64_t count, int64_t passes);
inline constexpr int64_t kProbeReadUnit = 128;

template <Isa>
int64_t probe_multiply_add_kernel(int64_t rounds);
template <Isa>
void probe_read_kernel(const float* data, int64_t count, int64_t passes);

}  // namespace heed
