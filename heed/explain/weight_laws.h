// Properties of softmax weights that rounding cannot break: a row sums to 1, and a larger score has a larger weight.
#pragma once

#include "heed/explain/grade.h"

namespace heed::explain {

struct BrokenLaw {
  std::string kind;  // "row_sum", "order"
  int64_t head = 0;
  int64_t row = 0;
  std::string text;
};

// The laws that the claimed weights break; `own` are the claim's own steps (carry_on).
std::vector<BrokenLaw> broken_laws(const WorkedExample& example, const StepValues& own, const GradedStep& weights);

}  // namespace heed::explain
