#include "heed/simd/isa.h"

#include <atomic>

#include "heed/core/error.h"

namespace heed {
namespace {

#if defined(HEED_HAS_AVX2) || defined(HEED_HAS_AVX512)
// AVX2 kernels also use F16C, which clang 14 cannot query and every CPU with AVX2 has.
bool cpu_has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

std::vector<Isa> detect() {
  std::vector<Isa> found;
#if defined(HEED_HAS_BASELINE)
  found.push_back(Isa::baseline);
#endif
#if defined(HEED_HAS_AVX2)
  if (cpu_has_avx2()) found.push_back(Isa::avx2);
#endif
#if defined(HEED_HAS_AVX512)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (cpu_has_avx2() && avx512) found.push_back(Isa::avx512);
#endif
  check(!found.empty(), "supported_isas", "this CPU has none of the instruction sets that this build has kernels for; ",
        "configure with baseline in HEED_ISAS");
  return found;
}

std::atomic<Isa>& chosen() {
  static std::atomic<Isa> isa{supported_isas().back()};
  return isa;
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::baseline:
      break;
  }
  return "baseline";
}

const std::vector<Isa>& supported_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

Isa isa() { return chosen().load(std::memory_order_relaxed); }

void set_isa(Isa isa) {
  for (const Isa has : supported_isas()) {
    if (has == isa) {
      chosen().store(isa, std::memory_order_relaxed);
      return;
    }
  }
  fail("set_isa", "no ", isa_name(isa), " on this CPU or in this build; the best is ",
       isa_name(supported_isas().back()));
}

}  // namespace heed
