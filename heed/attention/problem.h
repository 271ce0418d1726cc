// What every attention path checks before it writes anything. Internal to heed/attention.
#pragma once

#include "heed/attention/attention.h"
#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/simd/base256.h"

namespace heed {

// The sizes of a call, after they were found to fit.
struct Problem {
  MaskSizes sizes;  // B, H, Tq, Tk
  int64_t kv_heads = 0;
  int64_t d_k = 0;
  int64_t d_v = 0;
  float scale = 0.0F;
  float score_factor = 0.0F;  // scale · log256 e, rounded once: q is multiplied by it

  int64_t group() const { return sizes.heads / kv_heads; }  // query heads that share a key/value head
};

// Refuses, in the name of `function`, inputs and options that do not fit each other.
Problem check_problem(const char* function, const AttentionInputs& inputs, const AttentionOptions& options);

// Refuses a view that has not the given shape, is null, or whose last dimension is not contiguous.
void check_tensor(const char* function, const char* name, View<const float, 4> tensor, const Shape<4>& expected);

// Refuses row states that have not the shape [B, H, Tq]; both null views are fine unless `required`.
void check_rows(const char* function, const RowStates<const float>& rows, const MaskSizes& sizes, bool required);

}  // namespace heed
