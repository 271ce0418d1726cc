// A walkthrough as one JSON document, schema heed/attend@1: printed by `heed attend --json` and embedded in the page.
#pragma once

#include <string>

#include "heed/explain/attend.h"

namespace heed::explain {

// Tensors that the requested rows do not narrow (parameters, x, context, q, k, v) are left out above this many numbers,
// unless requested by name.
inline constexpr int64_t kMostJsonNumbers = 65536;

std::string attend_json(const AttendCase& given, const AttendRequest& request, const Walkthrough& all);

}  // namespace heed::explain
