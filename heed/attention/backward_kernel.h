// The interface of the backward kernels. Internal to heed/attention.
#pragma once

#include <atomic>

#include "heed/attention/attention.h"
#include "heed/attention/score_job.h"
#include "heed/simd/isa.h"

namespace heed {

// Keys per block, counted from the segment's first key. d_q sums over keys block by block, in order, so this is part of
// the order of arithmetic.
inline constexpr int64_t kBlockKeys = 192;
inline constexpr int64_t kTileQueries = 96;

// d_k and d_v sum over queries tile by tile. The tiles of a head are summed in groups of this many, counted from the
// segment's first query, and the groups into a total. Also part of the order of arithmetic.
inline constexpr int64_t kGroupTiles = 16;

// One block of keys of one segment, item and key/value head.
struct KeyBlock {
  int64_t b = 0;
  int64_t kv_head = 0;
  Segment segment;
  int64_t k_begin = 0;
  int64_t k_end = 0;
  KeyRangeRule rule;                             // within the segment
  const std::atomic<int64_t>* before = nullptr;  // steps that the preceding block has added to d_q; null: all
  std::atomic<int64_t>* done = nullptr;          // steps that this block has added to d_q; null: not needed
  int64_t tiles = 0;                             // of queries; a step is one tile of one query head of the group

  // Only with score options whose gradients are requested:
  const KeyBlock* bias_before = nullptr;  // blocks that add to the same part of d_bias first; null: none
  const KeyBlock* bias_before_end = nullptr;
  bool bias_by_tile = false;        // it is one block with the same keys: wait tile by tile
  double* position_sums = nullptr;  // [group][1 + buckets]: for the slope and the table; null: not requested
  int64_t query_offset = 0;         // the position of query 0
};

struct BackwardJob {
  AttentionInputs inputs;
  AttentionOutputs outputs;
  AttentionGradients gradients;
  const Mask* mask = nullptr;
  float scale = 0.0F;
  float score_factor = 0.0F;  // scale · log256 e, as in forward
  float value_scale = 0.0F;   // factor of v and delta: the scale, or 1 if options apply it later
  ScoreJob scores{};
  int64_t position_sums = 0;  // 1 + buckets
  bool adds_to_bias =
      false;  // d_bias was zeroed before, or is added to; else the first block to reach a part of it overwrites it
  bool zeroes_d_q = false;  // no keys, so no blocks: backward_prepare zeroes d_q; else the first block writes it
  // Per query, [B, H, Tq], filled by backward_prepare:
  View<float, 3> shift{};
  View<float, 3> inverse_sum{};  // 1 / sum, 0 for a query that sees no key; times 1 / (1 - p) with dropout
  View<float, 3> delta{};        // value_scale · Σ_d d_out · out / sum
};

// Fills shift, inverse_sum and delta of queries [q_begin, q_end) of one item and head. Returns their contribution to
// the gradient of the head's sink.
template <Isa isa>
double backward_prepare(const BackwardJob& job, int64_t b, int64_t head, int64_t q_begin, int64_t q_end);

// Scratch bytes that backward_block needs.
template <Isa isa>
size_t backward_scratch(int64_t d_k, int64_t d_v);

// Writes d_k and d_v of one block of keys and adds the block's contribution to d_q.
template <Isa isa>
void backward_block(const BackwardJob& job, const KeyBlock& block, Arena& scratch);

}  // namespace heed
