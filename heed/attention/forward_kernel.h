// What the forward kernels of each instruction set are given. Internal to heed/attention.
#pragma once

#include <cmath>
#include <limits>

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

// Pieces merge in groups of this many, counted from the segment's first key, and the groups into the row's total
// (softmax_state.h). Part of the order of arithmetic too.
inline constexpr int64_t kGroupPieces = 16;

// A piece's sum of 256^score must lie in [kLeastSum, kMostSum] for the shift 0; else the piece's true maximum is
// the shift. Far inside the range of float, so nothing that counts is lost: a key dropped because its power
// underflowed is below 2^-66 of the row's sum.
inline constexpr float kLeastSum = 0x1p-60F;
inline constexpr float kMostSum = 0x1p60F;

// Rows that come out non-finite are computed again, the second and third time with:
enum class RowMode {
  fast,
  careful,       // hidden keys take no part in the products, so that their NaN cannot leak
  true_maximum,  // and every shift is the true maximum, so that nothing overflows on the way
};

// The last one that may help: sigmoid has no shift.
inline RowMode last_mode(const ScoreJob& job) { return job.sigmoid ? RowMode::careful : RowMode::true_maximum; }

// With RowMode::true_maximum weights are multiplied by this, so that those of 2^36 keys add up to less than 1 and no
// sum of products with finite values overflows.
inline constexpr float kHeadroom = 0x1p-40F;

// o / sum of such a row: the mean of finite values is finite, though rounding may take the largest float past itself.
inline float mean_with_headroom(float o, float sum, float kept_scale) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (sum == 0.0F) return 0.0F;
  const double mean = static_cast<double>(kept_scale) * static_cast<double>(o) / static_cast<double>(sum);
  const bool rounded_up = std::abs(mean) > kMost && std::abs(mean) < kMost * (1.0 + 0x1p-16);
  return static_cast<float>(rounded_up ? std::copysign(kMost, mean) : mean);
}

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
  float score_factor = 0.0F;  // scale · log256 e
  // Where not null, k and v are read from here, and inputs.k and inputs.v tell only their sizes.
  const PagedKeys* paged = nullptr;
  ScoreJob scores{};
};

// Scratch bytes that forward_block needs.
template <Isa isa>
size_t forward_scratch(int64_t d_k, int64_t d_v);

// Computes `out` (and `rows`) for the queries of one block. `next`, where not null, is the block that this thread will
// probably compute next: its data are brought near.
template <Isa isa>
void forward_block(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, Arena& scratch);

}  // namespace heed
