// Measures decode steps against a plain read of the same keys and values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/row.h"
#include "bench/selection.h"

namespace heed::bench {

struct DecodeCase {
  CaseName label;
  AttentionSizes sizes;          // t_q queries a sequence; t_k keys of the longest
  std::vector<int64_t> lengths;  // keys of each sequence
  bool bf16 = false;
  bool all_threads = false;  // runs on all threads, and is compared with one
};

// Every case, in the order of the table.
const std::vector<DecodeCase>& decode_cases();

void bench_decode(const std::vector<DecodeCase>& cases, const BenchOptions& options, Report& report);

}  // namespace heed::bench
