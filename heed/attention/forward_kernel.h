// What the forward kernels of each instruction set are given. Internal to heed/attention.
#pragma once

#include "heed/attention/attention.h"
#include "heed/attention/kv_cache.h"
#include "heed/attention/score_job.h"
#include "heed/simd/isa.h"

namespace heed {

// The keys of a segment come in pieces of this many keys, counted from the segment's first key. It is part of the
// order of arithmetic (README.md), so it is one constant for every path. 128 keys × 64 queries of weights are 32 KiB:
// they stay near.
inline constexpr int64_t kPieceKeys = 128;

// A score is a sum over widths, in chains of so many that are added up in order: one chain over 256 widths would err by
// more than the contract allows. Part of the order of arithmetic too.
inline constexpr int64_t kChainWidths = 128;

// The most queries of one task (query_blocks.h): several panels read each piece of k and v while it is in the cache.
inline constexpr int64_t kMostBlockQueries = 512;

// A piece's sum of 2^score must lie in [kLeastSum, kMostSum] for the reference 0; else the piece's true maximum is the
// reference. Far inside the range of float, so nothing that counts is lost: a key dropped because 2^score underflowed
// is below 2^-66 of the row's sum.
inline constexpr float kLeastSum = 0x1p-60F;
inline constexpr float kMostSum = 0x1p60F;

// Consecutive queries of one segment of item b and one head, and the keys that they may see but for dense masks.
struct QueryBlock {
  int64_t b = 0;
  int64_t head = 0;
  Segment segment;    // pieces are counted from its first key
  KeyRangeRule rule;  // within the segment
  int64_t q_begin = 0;
  int64_t q_end = 0;
};

// Keys and values in the pages of a cache, instead of views: pages[b] are those of item b, in order.
struct PagedKeys {
  KvLayout layout;
  const int32_t* const* pages = nullptr;
};

struct ForwardJob {
  AttentionInputs inputs;
  View<float, 4> out;
  RowStates<float> rows;  // null views when nobody asked
  const Mask* mask = nullptr;
  float score_factor = 0.0F;  // scale · log2 e
  // Where not null, k and v are read from here, and inputs.k and inputs.v tell only their sizes.
  const PagedKeys* paged = nullptr;
  ScoreJob scores{};
};

// Scratch floats that forward_block needs.
template <Isa isa>
int64_t forward_scratch(int64_t d_k, int64_t d_v);

// Computes `out` (and `rows`) for the queries of one block. `next`, where not null, is the block that this thread will
// probably compute next: its data are brought near.
template <Isa isa>
void forward_block(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, float* scratch);

}  // namespace heed
