// Validation shared by every attention function, done before anything is written. Internal to heed/attention.
#pragma once

#include "heed/attention/attention.h"
#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/simd/base256.h"

namespace heed {

// The sizes of a call, after validation.
struct Problem {
  MaskSizes sizes;  // B, H, Tq, Tk
  int64_t kv_heads = 0;
  int64_t d_k = 0;
  int64_t d_v = 0;
  float scale = 0.0F;
  float score_factor = 0.0F;  // factor of q: scale · log256 e, rounded once

  int64_t group() const { return sizes.heads / kv_heads; }  // query heads that share a key/value head
};

// Rejects inputs and options that do not match, with an error that names `function`.
Problem check_problem(const char* function, const AttentionInputs& inputs, const AttentionOptions& options);

// Rejects a view that does not have the expected shape, is null, or whose last dimension is not contiguous.
void check_tensor(const char* function, const char* name, View<const float, 4> tensor, const Shape<4>& expected);

// Rejects row states that are not [B, H, Tq]; two null views are allowed unless `required`.
void check_rows(const char* function, const RowStates<const float>& rows, const MaskSizes& sizes, bool required);

}  // namespace heed
