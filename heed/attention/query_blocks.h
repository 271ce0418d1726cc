// The tasks of a forward call. Internal to heed/attention.
#pragma once

#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"

namespace heed {

// Cuts the queries of a call into blocks, one per task; the cuts do not affect results. A block has as many queries as
// fit in L2 with their q and o, so that k and v are read rarely. With several threads, blocks shrink towards the end,
// so that the threads finish together even if one of them is slower.
class QueryCutter {
 public:
  QueryCutter(const MaskSizes& sizes, int64_t d_k, int64_t d_v) : left_(sizes.batch * sizes.heads * sizes.t_q) {
    constexpr int64_t kFloats = 65536;  // of q and o: 256 KiB
    while (most_ > kLeastOfOneThread && most_ * (d_k + d_v) > kFloats) most_ /= 2;
  }

  // The first query of the next block, which ends at `end` (exclusive), of queries that begin at `begin`. Call it from
  // the last block to the first.
  int64_t next_begin(int64_t begin, int64_t end) {
    int64_t queries = most_;
    if (threads() > 1) {
      while (queries > kLeast && queries * kLeastBlocksOfThread * threads() > left_) queries /= 2;
    }
    const int64_t first = begin + (end - 1 - begin) / queries * queries;
    left_ -= end - first;
    return first;
  }

 private:
  static constexpr int64_t kLeastOfOneThread = 128;
  static constexpr int64_t kLeast = 64;
  static constexpr int64_t kLeastBlocksOfThread = 4;  // of those still to come
  int64_t most_ = kMostBlockQueries;
  int64_t left_;  // queries not yet in a block
};

// Calls visit(block) for every block of queries: head by head, so that a head's k and v stay in cache, and the last
// queries first, because under a causal mask they have the most work.
template <class Visit>
void for_each_query_block(const Problem& problem, const Mask& mask, Visit visit) {
  const MaskSizes& sizes = problem.sizes;
  if (sizes.t_q == 0) return;
  QueryCutter cutter(sizes, problem.d_k, problem.d_v);
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const KeyRangeRule rule = mask.key_range_rule(sizes, b);
    for (int64_t head = 0; head < sizes.heads; ++head) {
      for (int64_t n = mask.segment_count(b) - 1; n >= 0; --n) {
        QueryBlock block;
        block.b = b;
        block.head = head;
        block.segment = mask.segment(sizes, b, n);
        block.rule = rule.within(block.segment);
        const auto [q_begin, q_end, k_begin, k_end] = block.segment;
        for (block.q_end = q_end; block.q_end > q_begin; block.q_end = block.q_begin) {
          block.q_begin = cutter.next_begin(q_begin, block.q_end);
          visit(block);
        }
      }
    }
  }
}

// What a forward call takes from its arena; null pointers in a dry run.
struct ForwardMemory {
  ForwardMemory(Arena& arena, const Problem& problem, const AttentionOptions& options);

  int64_t blocks;  // their number
  QueryBlock* list;
  ScoreJob scores;
  WorkerArenas scratch;
};

}  // namespace heed
