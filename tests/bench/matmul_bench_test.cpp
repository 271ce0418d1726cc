#include "bench/matmul_bench.h"

#include <gtest/gtest.h>

#include <set>

#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/every_isa.h"

namespace heed::bench {
namespace {

struct Collected : Report {
  void add(const Row& row) override { rows.push_back(row); }
  std::vector<Row> rows;
};

MatmulCase small_case(int64_t m, bool packed) {
  MatmulCase result;
  result.label.name = "small";
  result.sizes = {m, 24, 40, packed};
  return result;
}

// One short repetition of each case.
std::vector<Row> run(const std::vector<MatmulCase>& cases, const std::optional<OpenBlas>& openblas) {
  BenchOptions options;
  options.harness.repetitions = 1;
  options.harness.least_seconds = 1e-9;
  const int threads_before = threads();
  Collected report;
  bench_matmul(cases, options, openblas, report);
  set_threads(threads_before);
  return report.rows;
}

TEST(MatmulCases, HaveNamesOfTheirOwnAndHoldTheTableOfTargets) {
  std::set<std::string> names;
  for (const MatmulCase& each : matmul_cases()) names.insert(each.label.name);
  EXPECT_EQ(names.size(), matmul_cases().size());
  for (const char* name :
       {"matmul-512x512x512", "matmul-512x1536x512", "matmul-2048x2048x2048", "matmul-64x64x64-packed",
        "matmul-4x1024x1024-packed", "matmul-1x1024x1024-packed", "matmul-512x512x512-threads",
        "matmul-4x1024x1024-packed-bf16", "matmul-1x1024x1024-packed-bf16", "matmul-1x4096x4096-packed-bf16",
        "matmul-512x1536x512-packed-bf16", "matmul-1x4096x4096-packed-bf16-threads"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(BenchMatmul, MeasuresPlainAndPackedOnEveryInstructionSet) {
  test::on_every_isa([] {
    for (const bool packed : {false, true}) {
      const std::vector<Row> rows = run({small_case(8, packed)}, std::nullopt);
      ASSERT_EQ(rows.size(), 1U);
      EXPECT_EQ(rows[0].matmul->packed, packed);
      EXPECT_GT(rows[0].measured->of_peak, 0);
    }
  });
}

TEST(BenchMatmul, WeightsInBf16AreComparedWithF32AndAReadOfHalfTheBytes) {
  test::on_every_isa([] {
    MatmulCase each = small_case(1, true);
    each.bf16 = true;
    const Row row = run({each}, OpenBlas::load())[0];
    EXPECT_EQ(row.dtype, "bf16");
    EXPECT_EQ(row.base, "packed f32");
    EXPECT_GT(row.of_base.value(), 0);
    EXPECT_GT(row.of_read.value(), 0);
    EXPECT_FALSE(row.of_openblas);
    EXPECT_NEAR(row.measured->gbps * row.measured->seconds, 2.0 * 24 * 40 * 1e-9, 1e-12);
  });
}

TEST(BenchMatmul, WithoutOpenBlasItsColumnIsEmpty) {
  EXPECT_FALSE(run({small_case(8, false)}, std::nullopt)[0].of_openblas);
}

TEST(BenchMatmul, ASingleRowIsComparedWithAPlainRead) {
  EXPECT_TRUE(run({small_case(1, true)}, std::nullopt)[0].of_read);
  EXPECT_FALSE(run({small_case(2, true)}, std::nullopt)[0].of_read);
}

TEST(OpenBlas, ComputesTheSameProductsAsOurs) {
  const std::optional<OpenBlas> openblas = OpenBlas::load();
  if (!openblas) GTEST_SKIP() << "OpenBLAS is not installed";
  EXPECT_TRUE(run({small_case(8, false)}, openblas)[0].of_openblas);
  for (const int64_t m : {1, 5}) {
    Tensor a({m, 40}), b({40, 24}), c({m, 24});
    Rng(1).fill_normal(a.values());
    Rng(2).fill_normal(b.values());
    openblas->matmul(std::as_const(a).view<2>(), std::as_const(b).view<2>(), c.view<2>());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < 24; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 40; ++k) sum += static_cast<double>(a.view<2>()(i, k)) * b.view<2>()(k, j);
        EXPECT_NEAR(c.view<2>()(i, j), sum, 1e-4);
      }
    }
  }
}

}  // namespace
}  // namespace heed::bench
