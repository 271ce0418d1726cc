// The interface of the decode kernels. Internal to heed/attention.
#pragma once

#include "heed/attention/attention.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/kv_cache.h"
#include "heed/attention/score_job.h"
#include "heed/simd/isa.h"

namespace heed {

static_assert(kPageKeys == kPieceKeys, "a page is a piece of the order of arithmetic");

// With up to this many queries per sequence, decode holds keys in lanes; with more, the forward kernel reads the pages.
inline constexpr int64_t kFewQueries = 16;

struct DecodeJob {
  KvLayout layout;
  View<const float, 4> q;  // [N, Tq, H, Dk]
  View<float, 4> out;      // [N, Tq, H, Dv]
  RowStates<float> rows;   // null views if not requested
  float score_factor = 0.0F;
  ScoreJob scores{};

  int64_t group() const { return q.size(2) / layout.kv_heads; }
  int64_t row_count() const { return q.size(1) * group(); }  // rows that share a key/value head
};

// One item of the batch and one key/value head: its rows are the queries of all heads of the group, query by query.
struct DecodeItem {
  int64_t n = 0;
  int64_t kv_head = 0;
  const int32_t* pages = nullptr;
  KeyRangeRule rule;  // keys that query t sees
  int64_t first_piece = 0;
  int64_t end_piece = 0;
};

// The result of a piece for a row: shift and sum, then o, padded to the cache's v_step.
inline constexpr int64_t kPieceResultHead = 16;
inline int64_t piece_result_floats(const KvLayout& layout) { return kPieceResultHead + layout.v_step; }

// Scratch bytes that the functions below need.
template <Isa isa>
size_t decode_scratch(const DecodeJob& job);

// Computes an item: its pieces in order, then out (and rows). `next`, if not null, is the page that this thread will
// probably read next.
template <Isa isa>
void decode_item(const DecodeJob& job, const DecodeItem& item, const std::byte* next, Arena& scratch);

// The same in two steps, for many threads and few items: decode_pieces computes the pieces [first_piece, end_piece) of
// an item into results[piece - first_piece][row], in any order; when all are done, decode_merge does the rest.
template <Isa isa>
void decode_pieces(const DecodeJob& job, const DecodeItem& item, float* results, Arena& scratch);
template <Isa isa>
void decode_merge(const DecodeJob& job, const DecodeItem& item, const float* results, Arena& scratch);

}  // namespace heed
