// Shared by insight.cpp and its kernels. Internal to heed/attention.
#pragma once

#include "heed/attention/forward_kernel.h"
#include "heed/attention/insight.h"
#include "heed/simd/isa.h"

namespace heed {

// Queries per task. Also how many are summed in float before they are added in double, so it affects the bits of the
// mass that keys receive and must not depend on threads.
inline constexpr int64_t kInsightQueries = 192;

struct InsightJob {
  AttentionInputs inputs;
  RowStates<const float> rows;  // null views if no weights are requested
  const Mask* mask = nullptr;
  float query_factor = 0.0F;  // factor of q: scale · log256 e, or 1 for `scores`
  ScoreJob scores{};          // for the steps up to the requested one
};

// The destination of a block's tiles.
struct TileOutput {
  AttentionStep step = AttentionStep::weights;  // any but heads
  View<float, 2> rows;                          // [queries of the block, keys]
  int64_t k_begin = 0;                          // the key of column 0
};

// Keys of one segment and all queries of it that may see them: one task of attention_mass_received.
struct MassBlock {
  QueryBlock queries;  // all of the segment
  int64_t k_begin = 0;
  int64_t k_end = 0;  // at most k_begin + kMassKeys
};
inline constexpr int64_t kMassKeys = 2 * kPieceKeys;

// Scratch bytes that the kernels below need; top_k is 0 if no top keys are requested.
template <Isa>
size_t insight_scratch(int64_t d_k, int64_t top_k);

template <Isa>
void insight_tile_kernel(const InsightJob& job, const QueryBlock& block, const TileOutput& out, Arena& scratch);

// Row i of `out` is query q_begin + i.
template <Isa>
void insight_rows_kernel(const InsightJob& job, const QueryBlock& block, int64_t q_begin, const RowInsight& out,
                         Arena& scratch);

template <Isa>
void insight_mass_kernel(const InsightJob& job, const MassBlock& block, View<float, 3> out, Arena& scratch);

}  // namespace heed
