// Measures matrix products, beside OpenBLAS.
#pragma once

#include <optional>
#include <vector>

#include "bench/openblas.h"
#include "bench/row.h"
#include "bench/selection.h"

namespace heed::bench {

struct MatmulCase {
  CaseName label;
  MatmulSizes sizes;
  bool all_threads = false;
};

// Every case, in the order of the table.
const std::vector<MatmulCase>& matmul_cases();

struct MatmulBenchOptions {
  int threads = 1;                   // of the rows that do not say
  int all_threads = 1;               // of the rows that use all threads
  std::optional<OpenBlas> openblas;  // measured in alternation, where it is here
  HarnessOptions harness;
};

void bench_matmul(const std::vector<MatmulCase>& cases, const MatmulBenchOptions& options, Report& report);

}  // namespace heed::bench
