// The interface of the forward kernels. Internal to heed/attention.
#pragma once

#include <cmath>
#include <limits>

#include "heed/attention/attention.h"
#include "heed/attention/kv_cache.h"
#include "heed/attention/score_job.h"
#include "heed/simd/isa.h"

namespace heed {

// The keys of a segment are processed in pieces of this many keys, counted from the segment's first key. This is part
// of the order of arithmetic (README.md), so it is one constant for every code path. 128 keys × 64 queries of weights
// are 32 KiB, small enough to stay in cache.
inline constexpr int64_t kPieceKeys = 128;

// A score is a sum over the head width, in chains of this length that are added in order: one chain of 256 would exceed
// the error bound. Also part of the order of arithmetic.
inline constexpr int64_t kChainWidths = 128;

// The most queries per task (query_blocks.h): several panels read each piece of k and v while it is in cache.
inline constexpr int64_t kMostBlockQueries = 512;

// Pieces merge in groups of this many, counted from the segment's first key, and the groups into the row's total
// (softmax_state.h). Part of the order of arithmetic too.
inline constexpr int64_t kGroupPieces = 16;

// A piece's sum of 256^score must be in [kLeastSum, kMostSum] for shift 0; otherwise the piece's true maximum is the
// shift. The bounds are far inside the range of float, so nothing significant is lost: a key dropped because its power
// underflowed is below 2^-66 of the row's sum.
inline constexpr float kLeastSum = 0x1p-60F;
inline constexpr float kMostSum = 0x1p60F;

// How a row is computed. Rows that are not finite are recomputed, first with careful, then with true_maximum.
enum class RowMode {
  fast,
  careful,       // hidden keys are left out of the products, so that their NaN cannot leak
  true_maximum,  // careful, and every shift is the true maximum, so that no intermediate overflows
};

// The last mode that may help: a sigmoid row has no shift to choose.
inline RowMode last_mode(const ScoreJob& job) { return job.sigmoid ? RowMode::careful : RowMode::true_maximum; }

// With RowMode::true_maximum, weights are multiplied by this, so that the weights of 2^36 keys sum to less than 1 and
// no sum of products with finite values overflows.
inline constexpr float kHeadroom = 0x1p-40F;

// o / sum of such a row. The mean of finite values is finite, but rounding may push it past the largest float.
inline float mean_with_headroom(float o, float sum, float kept_scale) {
  constexpr double kMost = std::numeric_limits<float>::max();
  if (sum == 0.0F) return 0.0F;
  const double mean = static_cast<double>(kept_scale) * static_cast<double>(o) / static_cast<double>(sum);
  const bool rounded_up = std::abs(mean) > kMost && std::abs(mean) < kMost * (1.0 + 0x1p-16);
  return static_cast<float>(rounded_up ? std::copysign(kMost, mean) : mean);
}

// Consecutive queries of one segment of item b and one head, and the keys they may see before dense masks.
struct QueryBlock {
  int64_t b = 0;
  int64_t head = 0;
  Segment segment;    // pieces are counted from its first key
  KeyRangeRule rule;  // within the segment
  int64_t q_begin = 0;
  int64_t q_end = 0;
};

// Keys and values in the pages of a cache instead of views: pages[b] are the pages of item b, in order.
struct PagedKeys {
  KvLayout layout;
  const int32_t* const* pages = nullptr;
};

struct ForwardJob {
  AttentionInputs inputs;
  View<float, 4> out;
  RowStates<float> rows;  // null views if not requested
  const Mask* mask = nullptr;
  float score_factor = 0.0F;  // scale · log256 e
  // If not null, k and v are read from here, and inputs.k and inputs.v only give their sizes.
  const PagedKeys* paged = nullptr;
  ScoreJob scores{};
};

// Scratch bytes that forward_block needs.
template <Isa isa>
size_t forward_scratch(int64_t d_k, int64_t d_v);

// Computes `out` (and `rows`) for the queries of one block. `next`, if not null, is the block that this thread will
// probably compute next: its data are prefetched.
template <Isa isa>
void forward_block(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, Arena& scratch);

}  // namespace heed
