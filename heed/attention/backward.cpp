// Backward: checks, the list of key blocks, the dispatch to the kernels, and the sums that blocks leave behind.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/backward_kernel.h"
#include "heed/attention/key_blocks.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kPrepareQueries = 512;

// Each block of keys then has sums for the slope and for every bucket of the table.
bool asks_for_positions(const ScoreGradients& scores) {
  return scores.d_alibi_slopes.data() != nullptr || scores.d_relative_table.data() != nullptr;
}

// Blocks write d_q, d_k, d_v and d_bias while others still read what comes in.
void check_gradients_apart(const char* function, const AttentionInputs& inputs, const ScoreOptions& scores,
                           const AttentionOutputs& outputs, const AttentionGradients& gradients) {
  const auto check_each = [&](const char* name, const View<float, 4>& gradient) {
    check_apart(function, name, gradient, "q", inputs.q);
    check_apart(function, name, gradient, "k", inputs.k);
    check_apart(function, name, gradient, "v", inputs.v);
    check_apart(function, name, gradient, "out", outputs.out);
    check_apart(function, name, gradient, "d_out", outputs.d_out);
    check_apart(function, name, gradient, "shift", outputs.rows.shift);
    check_apart(function, name, gradient, "sum", outputs.rows.sum);
    check_apart(function, name, gradient, "bias", scores.bias);
  };
  const View<float, 4>&d_q = gradients.d_q.view, &d_k = gradients.d_k.view, &d_v = gradients.d_v.view;
  check_each("d_q", d_q);
  check_each("d_k", d_k);
  check_each("d_v", d_v);
  check_each("d_bias", gradients.scores.d_bias.view);
  check_apart(function, "d_k", d_k, "d_q", d_q);
  check_apart(function, "d_v", d_v, "d_q", d_q);
  check_apart(function, "d_v", d_v, "d_k", d_k);
}

Problem check_call(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                   const AttentionGradients& gradients) {
  constexpr const char* kName = "attention_backward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  const Shape<4> heads_shape{sizes.batch, sizes.t_q, sizes.heads, problem.d_v};
  check_tensor(kName, "out", outputs.out, heads_shape);
  check_tensor(kName, "d_out", outputs.d_out, heads_shape);
  check_rows(kName, outputs.rows, sizes, options.scores.normaliser != Normaliser::sigmoid);
  check_tensor(kName, "d_q", gradients.d_q.view, inputs.q.shape());
  check_tensor(kName, "d_k", gradients.d_k.view, inputs.k.shape());
  check_tensor(kName, "d_v", gradients.d_v.view, inputs.v.shape());
  gradients.scores.check_fits(kName, options.scores);
  if (asks_for_positions(gradients.scores)) {
    check_sizes(kName, "the sums of positions [B, H, Tk, 1 + buckets]",
                Shape<4>{sizes.batch, sizes.heads, sizes.t_k, 1 + options.scores.relative.table.size(0)});
  }
  check_gradients_apart(kName, inputs, options.scores, outputs, gradients);
  return problem;
}

int64_t count_blocks(const Problem& problem, const Mask& mask) {
  int64_t blocks = 0;
  for_each_key_block(problem, mask, [&](const KeyBlock&, bool) { ++blocks; });
  return blocks;
}

// What a call takes from its arena.
struct Memory {
  Memory(Arena& arena, const Problem& problem, const AttentionOptions& options, int64_t position_sums_of_block,
         size_t scratch_of_worker)
      : blocks(count_blocks(problem, options.mask)),
        list(arena.take<KeyBlock>(blocks)),
        done(arena.take<std::atomic<int64_t>>(blocks)),
        sink_sums(arena.take<double>(problem.sizes.batch * problem.sizes.heads *
                                     divide_up(problem.sizes.t_q, kPrepareQueries))),
        position_sums(arena.take<double>(blocks * position_sums_of_block)),
        scores(score_job(problem, options, ScoreLanes::keys, arena)),
        scratch(arena, threads(), scratch_of_worker) {
    const Shape<3> rows{problem.sizes.batch, problem.sizes.heads, problem.sizes.t_q};
    for (View<float, 3>* each : {&shift, &inverse_sum, &delta}) {
      *each = {arena.take<float>(element_count(rows)), rows};
    }
  }

  int64_t blocks;  // how many
  KeyBlock* list;
  std::atomic<int64_t>* done;  // one a block
  double* sink_sums;           // [B, H, parts of the queries]
  double* position_sums;       // [blocks][group][1 + buckets]
  ScoreJob scores;
  WorkerArenas scratch;
  View<float, 3> shift, inverse_sum, delta;  // [B, H, Tq]
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
    std::construct_at(memory.list + at++, block);
  });
  const View<float, 4>& d_bias = job.gradients.scores.d_bias.view;
  if (d_bias.data() == nullptr) return;
  link_bias_turns(problem, d_bias, memory.list, at);
  job.adds_to_bias = job.gradients.scores.d_bias.add;
  if (job.adds_to_bias) return;
  // Pairs of different documents are in no block.
  job.adds_to_bias = at == 0;
  for (int64_t b = 0; b < problem.sizes.batch; ++b) {
    job.adds_to_bias = job.adds_to_bias || options.mask.segment_count(b) > 1;
  }
  if (!job.adds_to_bias) return;
  parallel_for(d_bias.size(0) * d_bias.size(1) * d_bias.size(2), [&](int64_t row, int) {
    const int64_t head = row / d_bias.size(2);
    std::fill_n(&d_bias(head / d_bias.size(1), head % d_bias.size(1), row % d_bias.size(2), 0), d_bias.size(3), 0.0F);
  });
}

// Per-query preparation before the blocks start.
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

// Tasks are key/value heads if these balance the threads well enough, so that a head's d_q stays in one core's cache;
// otherwise single blocks of keys, which wait for their turn to add to d_q. The bits are the same.
template <Isa isa>
void run_blocks(const BackwardJob& job, const Memory& memory, int64_t heads) {
  const int64_t n = threads();
  if (memory.blocks == 0) return;
  const auto run = [&](int64_t block, int worker) {
    Arena scratch = memory.scratch.of(worker);
    backward_block<isa>(job, memory.list[block], scratch);
  };
  if (heads % n != 0 && heads < 8 * n) return parallel_for(memory.blocks, run);
  parallel_for(heads, [&](int64_t head, int worker) {
    // The blocks of one head are contiguous in the list.
    const auto of_head = [&](const KeyBlock& block) { return block.b * job.inputs.k.size(2) + block.kv_head; };
    const KeyBlock* const list = memory.list;
    const KeyBlock* const end = list + memory.blocks;
    const KeyBlock* begin =
        std::partition_point(list, end, [&](const KeyBlock& block) { return of_head(block) < head; });
    for (const KeyBlock* at = begin; at < end && of_head(*at) == head; ++at) run(at - list, worker);
  });
}

// The gradients of sinks, slopes and table: sums over what the blocks left, in the order of the list.
void add_up(const Problem& problem, const BackwardJob& job, const Memory& memory) {
  const auto& [d_bias, d_slopes, d_table, d_sinks] = job.gradients.scores;
  const MaskSizes& sizes = problem.sizes;
  const int64_t parts = divide_up(sizes.t_q, kPrepareQueries);
  const auto sum_over_blocks = [&](int64_t head, int64_t which) {
    double sum = 0.0;
    for (int64_t i = 0; i < memory.blocks; ++i) {
      if (memory.list[i].kv_head != head / problem.group()) continue;
      sum += memory.list[i].position_sums[head % problem.group() * job.position_sums + which];
    }
    return static_cast<float>(sum);
  };
  for (int64_t head = 0; head < sizes.heads; ++head) {
    if (d_sinks.data() != nullptr) {
      double sum = 0.0;
      for (int64_t b = 0; b < sizes.batch; ++b) {
        for (int64_t i = 0; i < parts; ++i) sum += memory.sink_sums[(b * sizes.heads + head) * parts + i];
      }
      d_sinks(head) += static_cast<float>(sum);
    }
    if (d_slopes.data() != nullptr) d_slopes(head) += sum_over_blocks(head, 0);
    for (int64_t bucket = 0; d_table.data() != nullptr && bucket < d_table.size(0); ++bucket) {
      d_table(bucket, head) += sum_over_blocks(head, 1 + bucket);
    }
  }
}

}  // namespace

void attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                        const AttentionGradients& gradients) {
  const Problem problem = check_call(inputs, options, outputs, gradients);
  const bool asks_for_sums = asks_for_positions(gradients.scores) || gradients.scores.d_sinks.data() != nullptr;
  if (problem.sizes.t_q == 0 && problem.sizes.t_k == 0 && !asks_for_sums) return;
  BackwardJob job{inputs, outputs, gradients, &options.mask, problem.scale, problem.score_factor, problem.scale};
  job.zeroes_d_q = problem.sizes.t_k == 0 && !gradients.d_q.add;
  if (asks_for_positions(gradients.scores)) job.position_sums = 1 + options.scores.relative.table.size(0);

  dispatch([&]<Isa isa>() {
    CallArena arena(options.arena);
    const Memory memory(*arena, problem, options, problem.group() * job.position_sums,
                        backward_scratch<isa>(problem.d_k, problem.d_v));
    job.shift = memory.shift;
    job.inverse_sum = memory.inverse_sum;
    job.delta = memory.delta;
    job.scores = memory.scores;
    if (job.scores.has_options) job.value_scale = 1.0F;

    list_blocks(problem, options, job, memory);
    prepare<isa>(problem, job, memory);
    run_blocks<isa>(job, memory, problem.sizes.batch * problem.kv_heads);
    add_up(problem, job, memory);
  });
}

}  // namespace heed
