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

// OpenBLAS is measured in alternation, where it is here.
void bench_matmul(const std::vector<MatmulCase>& cases, const BenchOptions& options,
                  const std::optional<OpenBlas>& openblas, Report& report);

}  // namespace heed::bench
