#include "heed/attention/key_blocks.h"

namespace heed {

void link_bias_turns(const Problem& problem, View<const float, 4> d_bias, KeyBlock* blocks, int64_t count) {
  const bool all_items = d_bias.size(0) == 1 && problem.sizes.batch > 1;
  const bool all_heads = d_bias.size(1) == 1 && problem.kv_heads > 1;
  const auto number = [&](const KeyBlock& block) { return block.b * problem.kv_heads + block.kv_head; };
  const auto blocks_of = [&](int64_t head) -> HeadBlocks {
    KeyBlock* const end = blocks + count;
    KeyBlock* const first = std::partition_point(blocks, end, [&](const KeyBlock& x) { return number(x) < head; });
    return {first, std::partition_point(first, end, [&](const KeyBlock& x) { return number(x) <= head; })};
  };
  for (int64_t head = 1; head < problem.sizes.batch * problem.kv_heads; ++head) {
    const bool first_of_item = head % problem.kv_heads == 0;
    int64_t previous = -1;
    if (all_heads && (!first_of_item || all_items)) previous = head - 1;
    if (!all_heads && all_items) previous = head - problem.kv_heads;
    if (previous < 0) continue;
    const HeadBlocks mine = blocks_of(head);
    const HeadBlocks theirs = blocks_of(previous);
    const bool same = mine.same_keys(theirs);
    for (int64_t i = 0; i < mine.end - mine.begin; ++i) {
      KeyBlock& block = blocks[mine.begin - blocks + i];
      block.bias_before = same ? theirs.begin + i : theirs.begin;
      block.bias_before_end = same ? theirs.begin + i + 1 : theirs.end;
      block.bias_by_tile = same;
    }
  }
}

}  // namespace heed
