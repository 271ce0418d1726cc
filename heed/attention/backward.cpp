// Backward: checks, the list of key blocks, and the dispatch to the kernels.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/backward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kPrepareQueries = 512;

// Calls visit(block, first of its segment?) for every block of keys, head by head.
template <class Visit>
void for_each_key_block(const Problem& problem, const Mask& mask, Visit visit) {
  const MaskSizes& sizes = problem.sizes;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const KeyRangeRule rule = mask.key_range_rule(sizes, b);
    for (int64_t kv_head = 0; kv_head < problem.kv_heads; ++kv_head) {
      for (int64_t n = 0; n < mask.segment_count(b); ++n) {
        const Segment at = mask.segment(sizes, b, n);
        KeyBlock block{b, kv_head, at, 0, 0, rule.within(at)};
        for (int64_t k = at.k_begin; k < at.k_end; k += kBlockKeys) {
          block.k_begin = k;
          block.k_end = std::min(k + kBlockKeys, at.k_end);
          visit(block, k == at.k_begin);
        }
      }
    }
  }
}

struct Memory {
  KeyBlock* blocks = nullptr;
  std::atomic<int64_t>* done = nullptr;  // one a block
  float* scratch = nullptr;              // one part a thread
};

// Tasks are key/value heads where they fill the threads evenly enough, so that a head's d_q stays in one core's cache;
// else single blocks of keys, which wait for their turn to add to d_q. The bits are the same.
template <Isa isa>
void run_blocks(const BackwardJob& job, const Memory& memory, int64_t blocks, int64_t heads, int64_t scratch) {
  const int64_t n = threads();
  const auto run = [&](int64_t block, int worker) {
    backward_block<isa>(job, memory.blocks[block], memory.scratch + worker * scratch);
  };
  if (heads % n != 0 && heads < 8 * n) return parallel_for(blocks, run);
  parallel_for(heads, [&](int64_t head, int worker) {
    // The blocks of one head follow each other in the list.
    const auto of_head = [&](const KeyBlock& block) { return block.b * job.inputs.k.size(2) + block.kv_head; };
    const KeyBlock* begin = std::partition_point(memory.blocks, memory.blocks + blocks,
                                                 [&](const KeyBlock& block) { return of_head(block) < head; });
    for (const KeyBlock* at = begin; at < memory.blocks + blocks && of_head(*at) == head; ++at) {
      run(at - memory.blocks, worker);
    }
  });
}

}  // namespace

void attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                        const AttentionGradients& gradients) {
  constexpr const char* kName = "attention_backward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  const Shape<4> heads_shape{sizes.batch, sizes.t_q, sizes.heads, problem.d_v};
  check_tensor(kName, "out", outputs.out, heads_shape);
  check_tensor(kName, "d_out", outputs.d_out, heads_shape);
  check_rows(kName, outputs.rows, sizes, RowsWanted::yes);
  check_tensor(kName, "d_q", gradients.d_q, inputs.q.shape());
  check_tensor(kName, "d_k", gradients.d_k, inputs.k.shape());
  check_tensor(kName, "d_v", gradients.d_v, inputs.v.shape());

  dispatch([&]<Isa isa>() {
    int64_t blocks = 0;
    for_each_key_block(problem, options.mask, [&](const KeyBlock&, bool) { ++blocks; });
    const int64_t rows = sizes.batch * sizes.heads * sizes.t_q;
    const int64_t scratch = aligned_floats<float>(backward_scratch<isa>(problem.d_k, problem.d_v));
    const int64_t list = aligned_floats<KeyBlock>(blocks);
    const int64_t counters = aligned_floats<std::atomic<int64_t>>(blocks);
    const int64_t row_floats = aligned_floats<float>(rows);

    Workspace own;
    Workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
    float* floats = workspace.floats(static_cast<size_t>(list + counters + 3 * row_floats + threads() * scratch));
    Memory memory;
    memory.blocks = reinterpret_cast<KeyBlock*>(floats);
    memory.done = reinterpret_cast<std::atomic<int64_t>*>(floats + list);
    float* of_rows = floats + list + counters;
    memory.scratch = of_rows + 3 * row_floats;

    const Shape<3> rows_shape{sizes.batch, sizes.heads, sizes.t_q};
    BackwardJob job{inputs, outputs, gradients, &options.mask, problem.scale, problem.score_factor, {}, {}, {}};
    job.reference = {of_rows, rows_shape};
    job.inverse_sum = {of_rows + row_floats, rows_shape};
    job.delta = {of_rows + 2 * row_floats, rows_shape};
    int64_t at = 0;
    for_each_key_block(problem, options.mask, [&](KeyBlock block, bool first) {
      block.before = first ? nullptr : memory.done + at - 1;
      block.done = std::construct_at(memory.done + at, 0);
      std::construct_at(memory.blocks + at++, block);
    });

    const int64_t parts = divide_up(sizes.t_q, kPrepareQueries);
    parallel_for(sizes.batch * sizes.heads * parts, [&](int64_t task, int) {
      const int64_t q = task % parts * kPrepareQueries;
      const int64_t head = task / parts;
      backward_prepare<isa>(job, head / sizes.heads, head % sizes.heads, q, std::min(q + kPrepareQueries, sizes.t_q));
    });
    run_blocks<isa>(job, memory, blocks, sizes.batch * problem.kv_heads, scratch);
  });
}

}  // namespace heed
