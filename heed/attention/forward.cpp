// Forward: checks, the list of query blocks, and the dispatch to the kernels.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/attention/query_blocks.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {

namespace {

int64_t count_blocks(const Problem& problem, const Mask& mask) {
  int64_t blocks = 0;
  for_each_query_block(problem, mask, [&](const QueryBlock&) { ++blocks; });
  return blocks;
}

}  // namespace

ForwardMemory::ForwardMemory(Arena& arena, const Problem& problem, const AttentionOptions& options)
    : blocks(count_blocks(problem, options.mask)),
      list(arena.take<QueryBlock>(blocks)),
      scores(score_job(problem, options, ScoreLanes::queries, arena)),
      scratch(arena, threads(), dispatch([&]<Isa isa>() { return forward_scratch<isa>(problem.d_k, problem.d_v); })) {}

void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows) {
  constexpr const char* kName = "attention_forward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  check_tensor(kName, "out", out, {sizes.batch, sizes.t_q, sizes.heads, problem.d_v});
  check_rows(kName, rows, sizes, false);
  check_apart(kName, "out", out, "k", inputs.k);
  check_apart(kName, "out", out, "v", inputs.v);
  if (!same_view(out, inputs.q)) check_apart(kName, "out", out, "q", inputs.q);

  if (out.count() == 0) return;

  CallArena arena(options.arena);
  const ForwardMemory memory(*arena, problem, options);
  int64_t at = 0;
  for_each_query_block(problem, options.mask,
                       [&](const QueryBlock& block) { std::construct_at(memory.list + at++, block); });

  const ForwardJob job{inputs, out, rows, &options.mask, problem.score_factor, nullptr, memory.scores};
  dispatch([&]<Isa isa>() {
    const int64_t ahead = std::min<int64_t>(threads(), memory.blocks);
    parallel_for(memory.blocks, [&](int64_t task, int worker) {
      const QueryBlock* next = task + ahead < memory.blocks ? memory.list + task + ahead : nullptr;
      Arena scratch = memory.scratch.of(worker);
      forward_block<isa>(job, memory.list[task], next, scratch);
    });
  });
}

}  // namespace heed
