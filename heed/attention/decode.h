// Decode: attention of the last queries of sequences against a cache that holds their keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heed/attention/attention.h"
#include "heed/attention/kv_cache.h"
#include "heed/core/view.h"
#include "heed/core/workspace.h"

namespace heed {

struct DecodeOptions {
  std::optional<float> scale;  // 1/√Dk unless given
  // A query sees the keys up to its own position; with false all keys of its sequence, as in cross-attention.
  bool causal = true;
  // How many keys before its own position a query sees.
  int64_t window_left = Mask::kUnlimited;
  Workspace* workspace = nullptr;  // the caller's scratch memory; with it, calls after the first allocate nothing
};

// q [N, Tq, H, Dk] → out [N, Tq, H, Dv]: item n holds the last Tq queries of sequences[n], at positions length - Tq …
// length - 1, whose keys and values were appended before. `rows`, when given, receives reference and sum of each row,
// [N, H, Tq]. A sequence may be given more than once.
//
// With an f32 cache the result has the bits of attention_forward over the whole sequence, however its prompt was cut
// into chunks, whatever the other sequences and whatever the number of threads.
void attention_decode(const KvCache& cache, std::span<const int64_t> sequences, View<const float, 4> q,
                      const DecodeOptions& options, View<float, 4> out, RowStates<float> rows = {});

}  // namespace heed
