// Forward: checks, the list of query blocks, and the dispatch to the kernels.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/attention/query_blocks.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {

ForwardMemory forward_memory(const Problem& problem, const AttentionOptions& options) {
  ForwardMemory memory;
  for_each_query_block(problem, options.mask, [&](const QueryBlock&) { ++memory.blocks; });
  memory.list = aligned_floats<QueryBlock>(memory.blocks);
  memory.scores = aligned_floats<float>(score_job_floats(problem, options));
  memory.scratch =
      aligned_floats<float>(dispatch([&]<Isa isa>() { return forward_scratch<isa>(problem.d_k, problem.d_v); }));
  memory.total = memory.list + memory.scores + threads() * memory.scratch;
  return memory;
}

void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows) {
  constexpr const char* kName = "attention_forward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  check_tensor(kName, "out", out, {sizes.batch, sizes.t_q, sizes.heads, problem.d_v});
  const bool sigmoid = options.scores.normaliser == Normaliser::sigmoid;
  sigmoid ? check_no_rows(kName, rows) : check_rows(kName, rows, sizes, false);

  const ForwardMemory memory = forward_memory(problem, options);
  Workspace own;
  Workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
  float* floats = workspace.floats(static_cast<size_t>(memory.total));
  auto* blocks = reinterpret_cast<QueryBlock*>(floats);
  int64_t at = 0;
  for_each_query_block(problem, options.mask,
                       [&](const QueryBlock& block) { std::construct_at(blocks + at++, block); });

  float* const scratch = floats + memory.list + memory.scores;
  ForwardJob job{inputs, out, rows, &options.mask, problem.score_factor};
  job.scores = score_job(problem, options, ScoreLanes::queries, floats + memory.list);
  dispatch([&]<Isa isa>() {
    const int64_t ahead = std::min<int64_t>(threads(), memory.blocks);
    parallel_for(memory.blocks, [&](int64_t task, int worker) {
      const QueryBlock* next = task + ahead < memory.blocks ? blocks + task + ahead : nullptr;
      forward_block<isa>(job, blocks[task], next, scratch + worker * memory.scratch);
    });
  });
}

}  // namespace heed
