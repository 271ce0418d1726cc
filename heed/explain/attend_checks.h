// The checks at the end of a walkthrough: rows not finite, row sums, the float64 reference, rows that see no key.
#pragma once

#include <optional>

#include "heed/explain/attend.h"
#include "heed/explain/attend_run.h"

namespace heed::explain {

// Of the rows shown; of so many of them, evenly spread, as a second or so allows. One head where one is asked for.
AttendChecks checks_of(const AttendCase& given, const AttendRun& run, std::optional<int64_t> head);

}  // namespace heed::explain
