// The instruction set the kernels use: detected once from the CPU, or forced. Only this choice may change bits.
#pragma once

#include <string_view>
#include <vector>

namespace heed {

enum class Isa {
  baseline,  // SSE4.2 on x86 (no fused multiply-add), NEON on Arm
  avx2,      // AVX2 and FMA
  avx512,    // AVX-512 F, BW, DQ, VL
};

// "baseline", "avx2", "avx512".
std::string_view isa_name(Isa isa);

// The instruction sets that both the machine and this build support, the best one last.
const std::vector<Isa>& supported_isas();

// The instruction set in use: the best supported one until set_isa() is called.
Isa isa();

// Forces an instruction set for all later calls; an Error if it is not supported.
void set_isa(Isa isa);

}  // namespace heed
