// Other ways to the weights that learners try, beside the right one: the examples plain and three-masks.
#pragma once

#include <vector>

#include "heed/explain/attend.h"

namespace heed::explain {

// None for cases without a contrast. Every softmax is attention's own.
std::vector<Comparison> comparisons_of(const AttendCase& given);

}  // namespace heed::explain
