// Decode: attention of the last queries of each sequence over a cache of its keys and values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heed/attention/attention.h"
#include "heed/attention/kv_cache.h"
#include "heed/core/arena.h"
#include "heed/core/view.h"

namespace heed {

struct DecodeOptions {
  std::optional<float> scale{};  // default 1/√Dk
  // A query sees the keys up to its own position; if false, all keys of its sequence, as in cross-attention.
  bool causal = true;
  // How many keys before its own position a query sees.
  int64_t window_left = Mask::kUnlimited;
  // As in attention_forward, with B = N and Tk = the length of the longest of the sequences:
  // - bias [N or 1, H or 1, Tq, Tk]: the row of query t holds keys 0 … Tk - 1. For a shorter sequence, only the entries
  //   of its own keys are read.
  // - ALiBi, the relative table and dropout identify a query by its position: the query at position p gets what forward
  //   gives its query p. `positions` may override these, at most 2^24 apart. Cross-attention needs this: there the end
  //   of the keys says nothing about the queries.
  // - dropout takes one item id per item; without ids, an item is identified by its index in this call.
  ScoreOptions scores{};
  Arena* arena = nullptr;  // for scratch; with it, calls after the first allocate nothing
};

// q [N, Tq, H, Dk] → out [N, Tq, H, Dv]: item n holds the last Tq queries of sequences[n], at positions length - Tq …
// length - 1, whose keys and values are already in the cache. `rows`, if given, receives shift and sum of each row,
// [N, H, Tq]. A sequence may occur more than once. `out` must not share memory with the cache; it may be exactly the
// view q (in place).
//
// With an f32 cache the result has the bits of attention_forward over the whole sequence with the same score options,
// regardless of prompt chunks, other sequences and the number of threads.
void attention_decode(const KvCache& cache, std::span<const int64_t> sequences, View<const float, 4> q,
                      const DecodeOptions& options, View<float, 4> out, RowStates<float> rows = {});

}  // namespace heed
