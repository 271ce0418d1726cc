// Common wrong ways to compute the weights, beside the right one: for the examples plain and three-masks.
#pragma once

#include <vector>

#include "heed/explain/attend.h"

namespace heed::explain {

// Empty for cases without a contrast. Every softmax is computed by attention itself.
std::vector<Comparison> comparisons_of(const AttendCase& given);

}  // namespace heed::explain
