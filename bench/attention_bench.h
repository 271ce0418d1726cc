// Measures attention rows.
#pragma once

#include <vector>

#include "bench/attention_cases.h"

namespace heed::bench {

void bench_attention(const std::vector<AttentionCase>& cases, const BenchOptions& options, Report& report);

}  // namespace heed::bench
