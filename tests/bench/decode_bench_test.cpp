#include "bench/decode_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace heed::bench {
namespace {

TEST(DecodeCases, HoldTheTableOfTargets) {
  std::set<std::string> names;
  for (const DecodeCase& each : decode_cases()) names.insert(each.label.name);
  EXPECT_EQ(names.size(), decode_cases().size());
  for (const char* shape :
       {"decode-h8-d64-t4096", "decode-h8-d64-t32768", "decode-h32-kv8-d128-t4096", "decode-h32-kv8-d128-t32768"}) {
    for (const char* variant : {"", "-bf16", "-threads", "-bf16-threads"}) {
      EXPECT_TRUE(names.contains(std::string(shape) + variant)) << shape << variant;
    }
  }
  EXPECT_TRUE(names.contains("decode-h8-d64-t4096-b16"));
}

TEST(DecodeCases, HaveOneLengthASequenceAndNoneLongerThanTheyTell) {
  for (const DecodeCase& each : decode_cases()) {
    EXPECT_EQ(static_cast<int64_t>(each.lengths.size()), each.sizes.batch) << each.label.name;
    EXPECT_EQ(*std::ranges::max_element(each.lengths), each.sizes.t_k) << each.label.name;
  }
}

class Rows : public Report {
 public:
  void add(const Row& row) override { rows.push_back(row); }
  std::vector<Row> rows;
};

TEST(DecodeBench, ComparesWithAPlainRead) {
  DecodeCase each = decode_cases().front();
  each.sizes.t_k = 200;
  each.sizes.batch = 2;
  each.lengths = {200, 70};
  each.bf16 = true;
  BenchOptions options;
  options.harness.repetitions = 1;
  options.harness.least_seconds = 1e-6;
  Rows report;
  bench_decode({each}, options, report);
  ASSERT_EQ(report.rows.size(), 1U);
  const Row& row = report.rows.front();
  EXPECT_EQ(row.kind, "decode");
  EXPECT_EQ(row.dtype, "bf16");
  ASSERT_TRUE(row.measured && row.read_gbps && row.of_read);
  EXPECT_GT(row.measured->gbps, 0);
  EXPECT_DOUBLE_EQ(*row.of_read, row.measured->gbps / *row.read_gbps);
  EXPECT_FALSE(row.of_base);
}

}  // namespace
}  // namespace heed::bench
