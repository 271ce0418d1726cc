// Included first by every kernel source. A kernel source is compiled once per instruction set, each time in its own
// translation unit (cmake/kernels.cmake defines HEED_TARGET). These build in parallel, and no AVX code can leak into
// functions that the linker merges, because Highway sets the target of each function by attribute.
#pragma once

#include <hwy/detect_targets.h>
#undef HWY_TARGET
#define HWY_TARGET HEED_TARGET
#include <hwy/highway.h>

#include "heed/simd/isa.h"

namespace heed {

// The instruction set this translation unit is compiled for.
#if HWY_TARGET == HWY_AVX3
static constexpr Isa kTargetIsa = Isa::avx512;
#elif HWY_TARGET == HWY_AVX2
static constexpr Isa kTargetIsa = Isa::avx2;
#else
static constexpr Isa kTargetIsa = Isa::baseline;
#endif

}  // namespace heed
