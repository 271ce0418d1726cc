#include "bench/attention_bench.h"

#include <gtest/gtest.h>

#include "heed/parallel/parallel_for.h"
#include "tests/support/every_isa.h"

namespace heed::bench {
namespace {

struct Collected : Report {
  void add(const Row& row) override { rows.push_back(row); }
  std::vector<Row> rows;
};

// One short repetition of each case.
std::vector<Row> run(const std::vector<AttentionCase>& cases, const BenchOptions& base = {}) {
  BenchOptions options = base;
  options.harness.repetitions = 1;
  options.harness.least_seconds = 1e-9;
  const int threads_before = threads();
  Collected report;
  bench_attention(cases, options, report);
  set_threads(threads_before);
  return report.rows;
}

AttentionCase small_case(const std::string& kind, const std::string& layout) {
  AttentionCase result;
  result.label.name = kind + "-" + layout;
  result.kind = kind;
  result.sizes = {"causal", layout, 0, 2, 4, 2, 16, 24, 24};
  return result;
}

TEST(BenchAttention, MeasuresEveryKindAndLayoutOnEveryInstructionSet) {
  test::on_every_isa([] {
    for (const char* kind : {"forward", "backward", "both", "insight"}) {
      for (const char* layout : {"bhtd", "bthd", "qkv"}) {
        const std::vector<Row> rows = run({small_case(kind, layout)});
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].kind, kind);
        EXPECT_EQ(rows[0].isa, isa_name(isa()));
        ASSERT_TRUE(rows[0].measured);
        EXPECT_GT(rows[0].measured->gflops, 0);
        EXPECT_GT(rows[0].measured->of_peak, 0);
        EXPECT_FALSE(rows[0].of_base);
      }
    }
  });
}

TEST(BenchAttention, MeasuresWholeLayersOfEveryKindOnEveryInstructionSet) {
  test::on_every_isa([] {
    for (const char* kind : {"forward", "backward", "both"}) {
      AttentionCase layer = small_case(kind, "qkv");
      layer.sizes.width = 40;
      for (const bool packed : {false, true}) {
        layer.sizes.packed = packed;
        const std::vector<Row> rows = run({layer});
        ASSERT_EQ(rows.size(), 1U);
        EXPECT_EQ(rows[0].attention->width, 40);
        EXPECT_EQ(rows[0].attention->packed, packed);
        ASSERT_TRUE(rows[0].measured);
        EXPECT_GT(rows[0].measured->of_peak, 0);
      }
    }
  });
}

TEST(BenchAttention, MeasuresEveryScoreOption) {
  for (const char* option : {"alibi", "table", "cap", "sink", "sigmoid", "bias", "dropout"}) {
    AttentionCase with = small_case("both", "bthd");
    with.sizes.option = option;
    const std::vector<Row> rows = run({with});
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].attention->option, option);
    ASSERT_TRUE(rows[0].measured);
    EXPECT_GT(rows[0].measured->of_peak, 0);
  }
}

TEST(BenchAttention, AMemoryRowTellsTheGrowthOverWhatTheCallerHolds) {
  const std::vector<Row> rows = run({small_case("memory", "bhtd")});
  ASSERT_EQ(rows.size(), 1U);
  ASSERT_TRUE(rows[0].megabytes);
  EXPECT_GE(*rows[0].megabytes, 0);
  EXPECT_FALSE(rows[0].measured);
}

TEST(BenchAttention, RowsForAllThreadsAreComparedWithOneThread) {
  BenchOptions options;
  options.threads = 1;
  options.all_threads = 2;
  const auto cases = select(attention_cases(), {{"forward-d64-t512-causal-threads"}, "", false});
  const std::vector<Row> rows = run(cases, options);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].threads, 2);
  EXPECT_EQ(rows[0].base, "forward-d64-t512-causal");
  EXPECT_TRUE(rows[0].of_base);
}

}  // namespace
}  // namespace heed::bench
