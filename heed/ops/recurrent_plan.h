// How the batch of a recurrent layer is cut into blocks, and where its tokens lie without padding. Shared by forward
// and backward. Internal to heed/ops.
#pragma once

#include <algorithm>
#include <span>

#include "heed/ops/recurrent_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {

// Refuses inputs and directions that do not fit, in the name of `function`.
void check_recurrent(const char* function, const RecurrentInputs& inputs,
                     std::span<const RecurrentDirection> directions);

struct RecurrentPlan {
  int64_t tokens = 0;   // N of all items
  bool packed = false;  // the rows of x are not N rows of one matrix: there is padding, or it is strided
  int64_t blocks = 0;
  std::span<const RecurrentItem> items;  // of block 0, block 1, …; in a block in the order of falling length

  // Items are dealt to the blocks in the order of their length, so that blocks take about as long as each other.
  static int64_t first_of_block(int64_t items, int64_t blocks, int64_t block) {
    return block * (items / blocks) + std::min(block, items % blocks);
  }
  std::span<const RecurrentItem> block(int64_t index) const {
    const auto count = static_cast<int64_t>(items.size());
    const int64_t first = first_of_block(count, blocks, index);
    return items.subspan(static_cast<size_t>(first),
                         static_cast<size_t>(first_of_block(count, blocks, index + 1) - first));
  }
};

RecurrentPlan plan_recurrent(const RecurrentInputs& inputs, int64_t directions, Arena& arena);

// A weight [depth, columns] in panels.
RecurrentWeight pack_recurrent_weight(View<const float, 2> weight, Arena& arena);

// The rows of x [B, T, I] as a matrix [N, I]; only if the plan is not packed.
template <class T>
View<T, 2> rows_in_place(const View<T, 3>& x) {
  return {x.data(), {x.size(0) * x.size(1), x.size(2)}, {x.stride(1), x.stride(2)}};
}

// to [N, I]: the tokens of x [B, T, I].
void gather_tokens(const RecurrentPlan& plan, View<const float, 3> x, View<float, 2> to);
// d_x [B, T, I] (+)= from [N, I], and 0 past the length of an item.
void scatter_tokens(const RecurrentPlan& plan, View<const float, 2> from, const InputGradient<3>& d_x);

// kernel.operator()<isa>(pass, items, scratch) for every block of every direction.
template <class Scratch, class Kernel>
void for_each_block(const RecurrentPlan& plan, std::span<const RecurrentPass> passes, Arena& arena, Kernel kernel) {
  if (plan.items.empty()) return;
  const auto directions = static_cast<int64_t>(passes.size());
  Arena counted = Arena::dry_run();
  const Scratch dry(counted, static_cast<int64_t>(plan.block(0).size()), passes[0].hidden,
                    recurrent_gates(passes[0].kind));
  const WorkerArenas scratch(arena, threads(), counted.peak_bytes());
  dispatch([&]<Isa isa>() {
    parallel_for(directions * plan.blocks, [&](int64_t task, int worker) {
      Arena mine = scratch.of(worker);
      kernel.template operator()<isa>(passes[static_cast<size_t>(task % directions)], plan.block(task / directions),
                                      mine);
    });
  });
}

}  // namespace heed
