#include "bench/probe.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heed/parallel/parallel_for.h"
#include "heed/simd/probe.h"
#include "tests/support/every_isa.h"

namespace heed::bench {
namespace {

TEST(Probe, CountsTwoOperationsALaneAndChain) {
  test::on_every_isa([] {
    const int64_t lanes = isa() == Isa::avx512 ? 16 : isa() == Isa::avx2 ? 8 : 4;
    EXPECT_EQ(probe_multiply_add(10), 10 * 12 * 2 * lanes);
    EXPECT_EQ(probe_multiply_add(0), 0);
  });
}

TEST(Probe, TellsFiniteFiguresOnEveryInstructionSetAndThreadCount) {
  const int threads_before = threads();
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    test::on_every_isa([] {
      const Probe probe = measure_probe(1);
      EXPECT_GT(probe.gflops, 0);
      EXPECT_GT(probe.read_gbps, 0);
      EXPECT_GT(probe.read_share, 0);
      EXPECT_TRUE(std::isfinite(probe.gflops + probe.read_gbps + probe.read_share));
    });
  }
  set_threads(threads_before);
}

}  // namespace
}  // namespace heed::bench
