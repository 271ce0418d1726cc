// The tasks of a backward call. Internal to heed/attention.
#pragma once

#include <algorithm>
#include <memory>

#include "heed/attention/backward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"

namespace heed {

// Calls visit(block, is_first_of_segment) for every block of keys, head by head.
template <class Visit>
void for_each_key_block(const Problem& problem, const Mask& mask, Visit visit) {
  const MaskSizes& sizes = problem.sizes;
  if (sizes.t_k == 0) return;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const KeyRangeRule rule = mask.key_range_rule(sizes, b);
    for (int64_t kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
      for (int64_t n = 0; n < mask.segment_count(b); ++n) {
        KeyBlock block;
        block.b = b;
        block.kv_head = kv_head;
        block.segment = mask.segment(sizes, b, n);
        block.rule = rule.within(block.segment);
        block.tiles = divide_up(block.segment.q_end - block.segment.q_begin, kTileQueries);
        for (int64_t k = block.segment.k_begin; k < block.segment.k_end; k += kBlockKeys) {
          block.k_begin = k;
          block.k_end = std::min(k + kBlockKeys, block.segment.k_end);
          visit(block, k == block.segment.k_begin);
        }
      }
    }
  }
}

// The blocks of one key/value head, contiguous in the list.
struct HeadBlocks {
  const KeyBlock* begin = nullptr;
  const KeyBlock* end = nullptr;

  bool empty() const { return begin == end; }
  bool same_keys(const HeadBlocks& other) const {
    return std::equal(begin, end, other.begin, other.end, [](const KeyBlock& x, const KeyBlock& y) {
      return x.k_begin == y.k_begin && x.k_end == y.k_end && x.segment.q_begin == y.segment.q_begin &&
             x.segment.q_end == y.segment.q_end;
    });
  }
};

// The d_bias of a bias that is broadcast over items or heads is the sum over them, in order: each block waits until the
// blocks of the preceding head that shares its part of d_bias have added theirs. If both heads have the same blocks
// (always, except for documents that differ between items), each block waits for its counterpart, tile by tile;
// otherwise a block waits for all blocks of that head.
void link_bias_turns(const Problem& problem, View<const float, 4> d_bias, KeyBlock* blocks, int64_t count);

}  // namespace heed
