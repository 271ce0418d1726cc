// The tasks of a forward call. Internal to heed/attention.
#pragma once

#include <algorithm>

#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"

namespace heed {

// Queries of one task, which change no result: as many as q and o leave room for in L2, so that k and v are read
// seldom, but few enough that every thread gets work.
inline int64_t block_queries(const MaskSizes& sizes, int64_t d_k, int64_t d_v) {
  constexpr int64_t kLeast = 128;
  constexpr int64_t kFloats = 65536;  // of q and o: 256 KiB
  int64_t queries = kMostBlockQueries;
  const auto too_many = [&] {
    const int64_t tasks = sizes.batch * sizes.heads * divide_up(sizes.t_q, queries);
    return queries * (d_k + d_v) > kFloats || (threads() > 1 && tasks < 4 * threads());
  };
  while (queries > kLeast && too_many()) queries /= 2;
  return queries;
}

// Calls visit(block) for every block of queries: head by head, so that a head's k and v stay in the cache, the last
// queries first, because under a causal mask they have the most work.
template <class Visit>
void for_each_query_block(const Problem& problem, const Mask& mask, Visit visit) {
  const MaskSizes& sizes = problem.sizes;
  const int64_t queries = block_queries(sizes, problem.d_k, problem.d_v);
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
        for (int64_t i = divide_up(q_end - q_begin, queries) - 1; i >= 0; --i) {
          block.q_begin = q_begin + i * queries;
          block.q_end = std::min(block.q_begin + queries, q_end);
          visit(block);
        }
      }
    }
  }
}

// What a forward call takes from its workspace, in floats: the list of blocks, what the score options need, then one
// scratch a thread.
struct ForwardMemory {
  int64_t blocks = 0;
  int64_t list = 0;
  int64_t scores = 0;
  int64_t scratch = 0;
  int64_t total = 0;
};
ForwardMemory forward_memory(const Problem& problem, const AttentionOptions& options);

}  // namespace heed
