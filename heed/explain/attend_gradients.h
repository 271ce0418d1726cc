// The gradients of a walkthrough, each compared with finite differences in double.
#pragma once

#include <vector>

#include "heed/explain/attend.h"

namespace heed::explain {

// Gradients of q, k, v, weights, and of W_Q, W_K, W_V and W_O if there are projections. `rows` are the queries shown;
// names, head and d_out come from the request.
std::vector<Gradient> gradients_of(const AttendCase& given, const AttendRequest& request, const QueryRange& rows);

}  // namespace heed::explain
