// The checks at the end of a walkthrough: nonfinite rows, row sums, the float64 reference, rows that see no key.
#pragma once

#include <optional>

#include "heed/explain/attend.h"
#include "heed/explain/attend_run.h"

namespace heed::explain {

// Checks the rows shown, or an evenly spread sample of them that takes about a second. Only one head if `head` is set.
AttendChecks checks_of(const AttendCase& given, const AttendRun& run, std::optional<int64_t> head);

}  // namespace heed::explain
