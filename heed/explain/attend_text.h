// A walkthrough as text: the formula, shape and numbers of each step, then the checks.
#pragma once

#include <string>

#include "heed/explain/attend.h"
#include "heed/explain/text_style.h"

namespace heed::explain {

std::string attend_text(const AttendCase& given, const AttendRequest& request, const Walkthrough& walkthrough,
                        const TextStyle& style);

// "3 of 12 rows are not finite (NaN or ∞): the first is head 0, row 1"; empty if all rows are finite.
std::string nonfinite_text(const AttendChecks& checks);

}  // namespace heed::explain
