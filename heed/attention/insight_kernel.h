// What insight.cpp and its kernels share. Internal to heed/attention.
#pragma once

#include "heed/attention/forward_kernel.h"
#include "heed/attention/insight.h"
#include "heed/simd/isa.h"

namespace heed {

// Queries of one task. Also how many are summed in float before they are added in double, so it is part of the bits of
// the mass that keys receive and does not depend on threads.
inline constexpr int64_t kInsightQueries = 192;

struct InsightJob {
  AttentionInputs inputs;
  RowStates<const float> rows;  // null views where no weight is asked for
  const Mask* mask = nullptr;
  float query_factor = 0.0F;  // q is multiplied by it: scale · log256 e, or 1 for `scores`
  ScoreJob scores{};          // of the steps up to the one asked for
};

// Where the tiles of a block of queries go.
struct TileOutput {
  AttentionStep step = AttentionStep::weights;  // any but heads
  View<float, 2> rows;                          // [queries of the block, keys]
  int64_t k_begin = 0;                          // the key of column 0
};

// Keys of one segment, and every query of it that may see them: one task of the mass that keys receive.
struct MassBlock {
  QueryBlock queries;  // all of the segment
  int64_t k_begin = 0;
  int64_t k_end = 0;  // at most kMassKeys further
};
inline constexpr int64_t kMassKeys = 2 * kPieceKeys;

// Scratch bytes that the kernels below need; top_k is 0 where no top keys are asked for.
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
