// Measures attention rows.
#pragma once

#include <vector>

#include "bench/attention_cases.h"

namespace heed::bench {

struct AttentionBenchOptions {
  int threads = 1;      // of the rows that do not say
  int all_threads = 1;  // of the rows that compare all threads with one
  HarnessOptions harness;
};

void bench_attention(const std::vector<AttentionCase>& cases, const AttentionBenchOptions& options, Report& report);

}  // namespace heed::bench
