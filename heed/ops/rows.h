// Shared by the ops that work on [N, C] row by row: checks, and the split into tasks. Internal to heed/ops.
#pragma once

#include <algorithm>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/core/view.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {

// Elements of a task: enough for about 10 µs.
inline constexpr int64_t kTaskElements = int64_t{1} << 14;

// Rejects a view of another shape, and one whose rows are not contiguous.
inline void check_rows(const char* function, const char* name, const View<const float, 2>& view,
                       const Shape<2>& expected) {
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(function, name, view);
  check(view.size(1) <= 1 || view.stride(1) == 1, function, name, " has strides ", view.strides(),
        "; its rows must be contiguous: copy it first");
}

// Rejects a vector of another length, and one that is not contiguous.
inline void check_vector(const char* function, const char* name, const View<const float, 1>& view, int64_t expected) {
  check(view.size(0) == expected, function, name, " has ", view.size(0), " values, expected ", expected);
  check_view(function, name, view);
  check(view.size(0) <= 1 || view.stride(0) == 1, function, name, " has stride ", view.stride(0),
        "; it must be contiguous: copy it first");
}

// Rejects a result that shares memory with an input, unless it is the same view.
inline void check_same_or_apart(const char* function, const char* result_name, const View<const float, 2>& result,
                                const char* input_name, const View<const float, 2>& input) {
  if (!same_view(result, input)) check_apart(function, result_name, result, input_name, input);
}

// rows.operator()<isa>(begin, end) for consecutive ranges of rows.
template <class Rows>
void for_each_range_of_rows(const Shape<2>& shape, Rows rows) {
  if (element_count(shape) == 0) return;
  const int64_t rows_of_task = std::max<int64_t>(1, kTaskElements / shape[1]);
  dispatch([&]<Isa isa>() {
    parallel_for(divide_up(shape[0], rows_of_task), [&](int64_t task, int) {
      rows.template operator()<isa>(task * rows_of_task, std::min((task + 1) * rows_of_task, shape[0]));
    });
  });
}

}  // namespace heed
