// Backward: checks, the list of key blocks, the dispatch to the kernels, and the sums that blocks leave behind.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/backward_kernel.h"
#include "heed/attention/key_blocks.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kPrepareQueries = 512;

Problem check_call(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                   const AttentionGradients& gradients) {
  constexpr const char* kName = "attention_backward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  const Shape<4> heads_shape{sizes.batch, sizes.t_q, sizes.heads, problem.d_v};
  check_tensor(kName, "out", outputs.out, heads_shape);
  check_tensor(kName, "d_out", outputs.d_out, heads_shape);
  const bool sigmoid = options.scores.normaliser == Normaliser::sigmoid;
  sigmoid ? check_no_rows(kName, outputs.rows) : check_rows(kName, outputs.rows, sizes, true);
  check_tensor(kName, "d_q", gradients.d_q, inputs.q.shape());
  check_tensor(kName, "d_k", gradients.d_k, inputs.k.shape());
  check_tensor(kName, "d_v", gradients.d_v, inputs.v.shape());
  gradients.scores.check_fits(kName, options.scores);
  return problem;
}

// The parts of a call's workspace.
struct Memory {
  KeyBlock* blocks = nullptr;
  std::atomic<int64_t>* done = nullptr;  // one a block
  float* rows = nullptr;                 // three lists of [B, H, Tq]
  double* sink_sums = nullptr;           // [B, H, parts of the queries]
  double* position_sums = nullptr;       // [blocks][group][1 + buckets]
  float* scores = nullptr;               // what score_job() lays out
  float* scratch = nullptr;              // one part a thread
};

// How much of it, in floats.
struct MemorySizes {
  int64_t blocks = 0;  // their number
  int64_t list = 0, counters = 0, rows = 0, sink_sums = 0, position_sums = 0, scores = 0, scratch = 0;

  MemorySizes(const Problem& problem, const AttentionOptions& options, const BackwardJob& job,
              int64_t scratch_of_thread)
      : scratch(aligned_floats<float>(scratch_of_thread)) {
    const MaskSizes& sizes = problem.sizes;
    const int64_t heads = sizes.batch * sizes.heads;
    for_each_key_block(problem, options.mask, [&](const KeyBlock&, bool) { ++blocks; });
    list = aligned_floats<KeyBlock>(blocks);
    counters = aligned_floats<std::atomic<int64_t>>(blocks);
    rows = aligned_floats<float>(heads * sizes.t_q);
    sink_sums = aligned_floats<double>(heads * divide_up(sizes.t_q, kPrepareQueries));
    position_sums = aligned_floats<double>(blocks * problem.group() * job.position_sums);
    scores = aligned_floats<float>(score_job_floats(problem, options));
  }

  Memory take(Workspace& workspace) const {
    const int64_t all = list + counters + 3 * rows + sink_sums + position_sums + scores + threads() * scratch;
    float* at = workspace.floats(static_cast<size_t>(all));
    const auto next = [&at](int64_t floats) {
      float* part = at;
      at += floats;
      return part;
    };
    Memory memory;
    memory.blocks = reinterpret_cast<KeyBlock*>(next(list));
    memory.done = reinterpret_cast<std::atomic<int64_t>*>(next(counters));
    memory.rows = next(3 * rows);
    memory.sink_sums = reinterpret_cast<double*>(next(sink_sums));
    memory.position_sums = reinterpret_cast<double*>(next(position_sums));
    memory.scores = next(scores);
    memory.scratch = next(threads() * scratch);
    return memory;
  }
};

// Writes the list of blocks, each with what it waits for.
void list_blocks(const Problem& problem, const AttentionOptions& options, BackwardJob& job, const Memory& memory) {
  const int64_t sums = problem.group() * job.position_sums;
  int64_t at = 0;
  for_each_key_block(problem, options.mask, [&](KeyBlock block, bool first) {
    block.before = first ? nullptr : memory.done + at - 1;
    block.done = std::construct_at(memory.done + at, 0);
    if (sums > 0) {
      block.position_sums = memory.position_sums + at * sums;
      block.query_offset = options.scores.query_offset(problem.sizes, options.mask, block.b);
      std::fill_n(block.position_sums, sums, 0.0);
    }
    std::construct_at(memory.blocks + at++, block);
  });
  const View<float, 4>& d_bias = job.gradients.scores.d_bias;
  if (d_bias.data() == nullptr) return;
  link_bias_turns(problem, d_bias, memory.blocks, at);
  // Pairs of different documents are in no block.
  job.bias_zeroed = at == 0;
  for (int64_t b = 0; b < problem.sizes.batch; ++b) {
    job.bias_zeroed = job.bias_zeroed || options.mask.segment_count(b) > 1;
  }
  if (!job.bias_zeroed) return;
  parallel_for(d_bias.size(0) * d_bias.size(1) * d_bias.size(2), [&](int64_t row, int) {
    const int64_t head = row / d_bias.size(2);
    std::fill_n(&d_bias(head / d_bias.size(1), head % d_bias.size(1), row % d_bias.size(2), 0), d_bias.size(3), 0.0F);
  });
}

// What is needed of each query before the blocks begin.
template <Isa isa>
void prepare(const Problem& problem, const BackwardJob& job, const Memory& memory) {
  const MaskSizes& sizes = problem.sizes;
  const int64_t parts = divide_up(sizes.t_q, kPrepareQueries);
  parallel_for(sizes.batch * sizes.heads * parts, [&](int64_t task, int) {
    const int64_t q = task % parts * kPrepareQueries;
    const int64_t head = task / parts;
    memory.sink_sums[task] =
        backward_prepare<isa>(job, head / sizes.heads, head % sizes.heads, q, std::min(q + kPrepareQueries, sizes.t_q));
  });
}

// Tasks are key/value heads where they fill the threads evenly enough, so that a head's d_q stays in one core's cache;
// else single blocks of keys, which wait for their turn to add to d_q. The bits are the same.
template <Isa isa>
void run_blocks(const BackwardJob& job, const Memory& memory, const MemorySizes& sizes, int64_t heads) {
  const int64_t n = threads();
  const int64_t blocks = sizes.blocks;
  const auto run = [&](int64_t block, int worker) {
    backward_block<isa>(job, memory.blocks[block], memory.scratch + worker * sizes.scratch);
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

// The gradients of sinks, slopes and table: sums over what the blocks left, in the order of the list.
void add_up(const Problem& problem, const BackwardJob& job, const Memory& memory, int64_t blocks) {
  const auto& [d_bias, d_slopes, d_table, d_sinks] = job.gradients.scores;
  const MaskSizes& sizes = problem.sizes;
  const int64_t parts = divide_up(sizes.t_q, kPrepareQueries);
  const auto sum_over_blocks = [&](int64_t head, int64_t which) {
    double sum = 0.0;
    for (int64_t i = 0; i < blocks; ++i) {
      if (memory.blocks[i].kv_head != head / problem.group()) continue;
      sum += memory.blocks[i].position_sums[head % problem.group() * job.position_sums + which];
    }
    return static_cast<float>(sum);
  };
  for (int64_t head = 0; head < sizes.heads; ++head) {
    if (d_sinks.data() != nullptr) {
      double sum = 0.0;
      for (int64_t b = 0; b < sizes.batch; ++b) {
        for (int64_t i = 0; i < parts; ++i) sum += memory.sink_sums[(b * sizes.heads + head) * parts + i];
      }
      d_sinks(head) = static_cast<float>(sum);
    }
    if (d_slopes.data() != nullptr) d_slopes(head) = sum_over_blocks(head, 0);
    for (int64_t bucket = 0; d_table.data() != nullptr && bucket < d_table.size(0); ++bucket) {
      d_table(bucket, head) = sum_over_blocks(head, 1 + bucket);
    }
  }
}

}  // namespace

void attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                        const AttentionGradients& gradients) {
  const Problem problem = check_call(inputs, options, outputs, gradients);
  BackwardJob job{inputs, outputs, gradients, &options.mask, problem.scale, problem.score_factor, problem.scale};
  const bool positions =
      gradients.scores.d_alibi_slopes.data() != nullptr || gradients.scores.d_relative_table.data() != nullptr;
  job.d_q_zeroed = problem.sizes.t_k == 0;
  if (positions) job.position_sums = 1 + options.scores.relative.table.size(0);

  dispatch([&]<Isa isa>() {
    const MemorySizes sizes(problem, options, job, backward_scratch<isa>(problem.d_k, problem.d_v));
    Workspace own;
    const Memory memory = sizes.take(options.workspace != nullptr ? *options.workspace : own);
    const Shape<3> rows_shape{problem.sizes.batch, problem.sizes.heads, problem.sizes.t_q};
    job.reference = {memory.rows, rows_shape};
    job.inverse_sum = {memory.rows + sizes.rows, rows_shape};
    job.delta = {memory.rows + 2 * sizes.rows, rows_shape};
    job.scores = score_job(problem, options, ScoreLanes::keys, memory.scores);
    if (job.scores.on_tiles) job.value_scale = 1.0F;

    list_blocks(problem, options, job, memory);
    prepare<isa>(problem, job, memory);
    run_blocks<isa>(job, memory, sizes, problem.sizes.batch * problem.kv_heads);
    add_up(problem, job, memory, sizes.blocks);
  });
}

}  // namespace heed
