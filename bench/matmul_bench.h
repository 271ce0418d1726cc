// Measures matrix products, beside OpenBLAS, and with weights in bf16 beside f32.
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
  bool bf16 = false;  // weights packed in bf16
  bool all_threads = false;
};

// Every case, in the order of the table.
const std::vector<MatmulCase>& matmul_cases();

// Measured in alternation: OpenBLAS, where it is here; for weights in bf16, the same product with packed f32.
void bench_matmul(const std::vector<MatmulCase>& cases, const BenchOptions& options,
                  const std::optional<OpenBlas>& openblas, Report& report);

}  // namespace heed::bench
