#include "heed/simd/target.h"

#include "heed/simd/probe.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// 12 chains cover two units of up to six cycles of latency, and with the two operands fit 16 registers.
inline constexpr int kChains = 12;

// A result that the compiler must believe to be used.
HWY_INLINE void keep(Vector value) {
  alignas(64) float sink[kLanes];
  hn::Store(value, kFloats, sink);
  [[maybe_unused]] volatile float kept = 0;
  for (int lane = 0; lane < kLanes; ++lane) kept = sink[lane];
}

int64_t multiply_add(int64_t rounds) {
  // x ← 0.75 x + 0.25 goes to 1: no overflow, no denormals.
  const Vector factor = hn::Set(kFloats, 0.75F);
  const Vector term = hn::Set(kFloats, 0.25F);
  Vector chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = hn::Set(kFloats, 0.5F + 0.01F * static_cast<float>(i));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chain[i] = hn::MulAdd(chain[i], factor, term);
  }
  for (int i = 0; i < kChains; ++i) keep(chain[i]);
  return rounds * kChains * kLanes * 2;
}

void read(const float* data, int64_t count, int64_t passes) {
  constexpr int kLoads = 8;
  static_assert(kProbeReadUnit % (kLoads * kLanes) == 0);
  Vector seen[kLoads];
  for (int i = 0; i < kLoads; ++i) seen[i] = hn::Zero(kFloats);
  // The compiler does not know that each pass reads the same.
  const volatile int64_t start = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const float* from = data + start;
    for (int64_t at = 0; at + kProbeReadUnit <= count; at += kProbeReadUnit) {
#pragma GCC unroll 32
      for (int load = 0; load < kProbeReadUnit / kLanes; ++load) {
        seen[load % kLoads] = hn::Or(seen[load % kLoads], hn::LoadU(kFloats, from + at + load * kLanes));
      }
    }
  }
  for (int i = 0; i < kLoads; ++i) keep(seen[i]);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
int64_t probe_multiply_add_kernel<kTargetIsa>(int64_t rounds) {
  return HWY_NAMESPACE::multiply_add(rounds);
}

template <>
void probe_read_kernel<kTargetIsa>(const float* data, int64_t count, int64_t passes) {
  HWY_NAMESPACE::read(data, count, passes);
}

}  // namespace heed
