// Decode: attention of the last queries of sequences against a cache that holds their keys and values.
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
  std::optional<float> scale{};  // 1/√Dk unless given
  // A query sees the keys up to its own position; with false all keys of its sequence, as in cross-attention.
  bool causal = true;
  // How many keys before its own position a query sees.
  int64_t window_left = Mask::kUnlimited;
  // As in attention_forward, with B = N and Tk = the length of the longest of the sequences:
  // - bias [N or 1, H or 1, Tq, Tk]: the row of query t holds keys 0 … Tk - 1. Of the rows of a shorter sequence only
  //   its own keys are read.
  // - ALiBi, the relative table and dropout know a query by its position: the query at position p gets what forward
  //   gives its query p. `positions` may state others for them, at most 2^24 apart, as cross-attention needs, where the
  //   end of the keys says nothing about the queries.
  // - dropout's item ids are one an item; without them an item is known by its place in this call.
  ScoreOptions scores{};
  Arena* arena = nullptr;  // where scratch memory comes from; with it, calls after the first allocate nothing
};

// q [N, Tq, H, Dk] → out [N, Tq, H, Dv]: item n holds the last Tq queries of sequences[n], at positions length - Tq …
// length - 1, whose keys and values were appended before. `rows`, when given, receives shift and sum of each row,
// [N, H, Tq]. A sequence may be given more than once. `out` must not share memory with
// the cache; it may be q itself, the very same view.
//
// With an f32 cache the result has the bits of attention_forward over the whole sequence with the same score options,
// however its prompt was cut into chunks, whatever the other sequences and whatever the number of threads.
void attention_decode(const KvCache& cache, std::span<const int64_t> sequences, View<const float, 4> q,
                      const DecodeOptions& options, View<float, 4> out, RowStates<float> rows = {});

}  // namespace heed
