// The dropout mask of attention: every code path draws the same one, regardless of order, tiling and threads. Rng maps
// (seed, step, layer, item id, head, query) to the words of a row of weights; the keys are its elements
// (heed/ops/dropout_bits.h).
#pragma once

#include "heed/attention/score_options.h"
#include "heed/ops/dropout_bits.h"

namespace heed {

// Shared by all rows of one item and head.
inline Rng dropout_head(const Dropout& dropout, int64_t b, int64_t head) {
  const Rng call = dropout_call(dropout.seed, dropout.step, dropout.layer);
  return Rng(Rng(call.bits(dropout.item_id(b))).bits(static_cast<uint64_t>(head)));
}

inline int32_t dropout_threshold(const Dropout& dropout) { return dropout_threshold(dropout.probability); }
inline double dropout_scale(const Dropout& dropout) { return dropout_scale(dropout.probability); }

}  // namespace heed
