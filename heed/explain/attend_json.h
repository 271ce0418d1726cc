// A walkthrough as one JSON document, schema heed/attend@1: what `heed attend --json` prints and the page is built on.
#pragma once

#include <string>

#include "heed/explain/attend.h"

namespace heed::explain {

// Tensors that the rows asked for do not narrow (parameters, x, context, q, k, v) are left out above this many numbers,
// unless they are asked for by name.
inline constexpr int64_t kMostJsonNumbers = 65536;

std::string attend_json(const AttendCase& given, const AttendRequest& request, const Walkthrough& all);

}  // namespace heed::explain
