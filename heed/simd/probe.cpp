#include "heed/simd/probe.h"

#include "heed/simd/dispatch.h"

namespace heed {

int64_t probe_multiply_add(int64_t rounds) {
  return dispatch([&]<Isa isa>() { return probe_multiply_add_kernel<isa>(rounds); });
}

void probe_read(const float* data, int64_t count, int64_t passes) {
  dispatch([&]<Isa isa>() { probe_read_kernel<isa>(data, count, passes); });
}

}  // namespace heed
