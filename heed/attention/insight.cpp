// Insight: checks, tasks, and the dispatch to the kernels.
#include "heed/attention/insight.h"

#include <algorithm>
#include <memory>

#include "heed/attention/insight_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// A validated call.
struct Call {
  const AttentionOptions& options;
  Problem problem;
  AttentionStep step = AttentionStep::weights;  // the requested step, or the one it is computed from

  const MaskSizes& sizes() const { return problem.sizes; }
};

// Rejects a step that is not recomputed here or that the call does not take.
void check_taken(const char* function, const ScoreOptions& scores, AttentionStep step) {
  check(step >= AttentionStep::scores && step <= AttentionStep::heads, function, "step ", step_name(step),
        " is not made of scores; ask for one from scores to heads");
  const auto taken = [&](AttentionStep each) { return takes_step(scores, each); };
  if (taken(step)) return;
  const char* without = step == AttentionStep::capped    ? "soft cap"
                        : step == AttentionStep::dropped ? "dropout"
                                                         : "ALiBi, relative table or dense bias";
  fail(function, "step ", step_name(step), " is not taken: there is no ", without, "; ask for ",
       step_name(taken_sources(step, taken).front()));
}

Call check_call(const char* function, const AttentionInputs& inputs, const AttentionOptions& options,
                const RowStates<const float>& rows, AttentionStep step) {
  const Call call{options, check_problem(function, inputs, options), step};
  check_taken(function, options.scores, step);
  const bool needed = step == AttentionStep::weights || step == AttentionStep::dropped;
  check_rows(function, rows, call.sizes(), needed && options.scores.normaliser != Normaliser::sigmoid);
  return call;
}

// The options of the steps up to the requested one.
ScoreJob score_job_of(const Call& call, Arena& arena) {
  if (call.step < AttentionStep::capped) return {};
  const ScoreJob all = score_job(call.problem, call.options, ScoreLanes::queries, arena);
  if (call.step > AttentionStep::capped) return all;
  ScoreJob capped;
  capped.has_options = true;
  capped.cap = all.cap;
  capped.inverse_cap = all.inverse_cap;
  return capped;
}

// Queries [q_begin, q_end) of heads [head, head + heads) of items [b, b + batch).
struct RowRange {
  int64_t b = 0;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t heads = 0;
  int64_t q_begin = 0;
  int64_t q_end = 0;

  static RowRange all(const MaskSizes& sizes) { return {0, sizes.batch, 0, sizes.heads, 0, sizes.t_q}; }
};

// visit(block) for each segment, head by head: its queries that are in the range, perhaps none, as one block.
template <class Visit>
void for_each_segment(const MaskSizes& sizes, const Mask& mask, const RowRange& range, Visit visit) {
  for (int64_t b = range.b; b < range.b + range.batch; ++b) {
    const KeyRangeRule rule = mask.key_range_rule(sizes, b);
    for (int64_t head = range.head; head < range.head + range.heads; ++head) {
      for (int64_t n = 0; n < mask.segment_count(b); ++n) {
        QueryBlock block;
        block.b = b;
        block.head = head;
        block.segment = mask.segment(sizes, b, n);
        block.rule = rule.within(block.segment);
        block.q_begin = std::max(range.q_begin, block.segment.q_begin);
        block.q_end = std::min(range.q_end, block.segment.q_end);
        visit(block);
      }
    }
  }
}

// The same in blocks of at most kInsightQueries queries.
template <class Visit>
void for_each_block(const MaskSizes& sizes, const Mask& mask, const RowRange& range, Visit visit) {
  for_each_segment(sizes, mask, range, [&](QueryBlock block) {
    const int64_t end = block.q_end;
    for (; block.q_begin < end; block.q_begin = block.q_end) {
      block.q_end = std::min(block.q_begin + kInsightQueries, end);
      visit(block);
    }
  });
}

// Runs body.operator()<isa>(task, scratch) for each task that for_each_task(visit) visits, with `scratch_bytes` for
// each thread; before that, sets `scores`.
template <class Task, class ForEachTask, class Body>
void run_tasks(const Call& call, ScoreJob& scores, size_t scratch_bytes, ForEachTask for_each_task, Body body) {
  int64_t tasks = 0;
  for_each_task([&](const Task&) { ++tasks; });
  CallArena arena(call.options.arena);
  auto* const first = arena->take<Task>(tasks);
  int64_t at = 0;
  for_each_task([&](const Task& task) { std::construct_at(first + at++, task); });
  scores = score_job_of(call, *arena);
  const WorkerArenas workers(*arena, threads(), scratch_bytes);
  dispatch([&]<Isa isa>() {
    parallel_for(tasks, [&](int64_t task, int worker) {
      Arena scratch = workers.of(worker);
      body.template operator()<isa>(first[task], scratch);
    });
  });
}

size_t scratch_of(const Problem& problem, int64_t top_k = 0) {
  return dispatch([&]<Isa isa>() { return insight_scratch<isa>(problem.d_k, top_k); });
}

// Tiles of a step other than `heads`.
struct TileRequest {
  RowRange range;
  int64_t k_begin = 0;
  View<float, 4> out;  // [batch, heads, queries, keys] of the range, keys from k_begin on
};

void write_tiles(const Call& call, InsightJob& job, const TileRequest& request) {
  const RowRange& range = request.range;
  run_tasks<QueryBlock>(
      call, job.scores, scratch_of(call.problem),
      [&](auto visit) { for_each_block(call.sizes(), *job.mask, range, visit); },
      [&]<Isa isa>(const QueryBlock& block, Arena& scratch) {
        const View<float, 2> rows = request.out[block.b - range.b][block.head - range.head].slice(
            0, block.q_begin - range.q_begin, block.q_end - block.q_begin);
        insight_tile_kernel<isa>(job, block, {call.step, rows, request.k_begin}, scratch);
      });
}

static_assert(kInsightQueries <= kMostBlockQueries, "forward's scratch is that of its largest block");

// Rows of `heads` by forward's own kernel, so they have its bits. out is [queries, Dv].
void write_heads(const Call& call, const AttentionInputs& inputs, const RowRange& range, const View<float, 2>& out) {
  const Problem& problem = call.problem;
  ForwardJob job;
  job.inputs = inputs;
  job.mask = &call.options.mask;
  job.score_factor = problem.score_factor;
  // One item and one head, for any index; row q of forward's out is row q - q_begin of ours.
  job.out = {
      out.data() - range.q_begin * out.stride(0), {1, problem.sizes.t_q, 1, problem.d_v}, {0, out.stride(0), 0, 1}};
  const size_t scratch = dispatch([&]<Isa isa>() { return forward_scratch<isa>(problem.d_k, problem.d_v); });
  run_tasks<QueryBlock>(
      call, job.scores, scratch, [&](auto visit) { for_each_block(problem.sizes, *job.mask, range, visit); },
      [&]<Isa isa>(const QueryBlock& block, Arena& memory) { forward_block<isa>(job, block, nullptr, memory); });
}

// Rejects a result that is a null view or whose last dimension is not contiguous.
template <int N>
void check_result(const char* function, const char* name, const View<float, N>& result) {
  check_view(function, name, result);
  check(result.size(N - 1) <= 1 || result.stride(N - 1) == 1, function, name, " has strides ", result.strides(),
        "; its last dimension must be contiguous (stride 1)");
}

// Rejects [begin, begin + count) that is not within 0 … size.
void check_range(const char* function, const char* name, int64_t begin, int64_t count, int64_t size) {
  check(begin >= 0 && count >= 0 && begin <= size && count <= size - begin, function, count, " ", name, " from ", begin,
        " on are asked for, but there are ", size, ": 0 … ", size - 1);
}

// The number of requested rows; rejects results that do not agree.
int64_t check_row_insight(const char* function, const RowInsight& out, const MaskSizes& sizes) {
  int64_t count = -1;
  const auto check_one = [&]<class T, int N>(const char* name, const View<T, N>& view) {
    check_view(function, name, view);
    if (view.data() == nullptr) return;
    if (count < 0) count = view.size(2);
    check(view.size(0) == sizes.batch && view.size(1) == sizes.heads && view.size(2) == count, function, name,
          " has shape ", view.shape(), ", expected [B, H, N", N == 4 ? ", K" : "", "] with B = ", sizes.batch,
          ", H = ", sizes.heads, " and N = ", count);
    if constexpr (N == 4) {
      check(view.size(3) >= 1 && view.size(3) <= kMostLength, function, name, " has shape ", view.shape(),
            ": K must be 1 or more, at most 2^30");
    }
  };
  check_one("entropy", out.entropy);
  check_one("largest", out.largest);
  check_one("top_keys", out.top_keys);
  check_one("top_weights", out.top_weights);
  const bool both = out.top_keys.data() != nullptr && out.top_weights.data() != nullptr;
  check(!both || out.top_keys.size(3) == out.top_weights.size(3), function, "top_keys has shape ", out.top_keys.shape(),
        " and top_weights ", out.top_weights.shape(), "; they must agree in K");
  return std::max<int64_t>(count, 0);
}

}  // namespace

bool takes_step(const ScoreOptions& scores, AttentionStep step) {
  if (step == AttentionStep::capped) return scores.soft_cap.has_value();
  if (step == AttentionStep::biased) return scores.has_positions() || scores.bias.data() != nullptr;
  if (step == AttentionStep::dropped) return scores.dropout.probability > 0.0F;
  return true;
}

void attention_tile(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                    AttentionStep step, const TilePlace& place, View<float, 2> out) {
  constexpr const char* kName = "attention_tile";
  const Call call = check_call(kName, inputs, options, rows, step);
  const Problem& problem = call.problem;
  const MaskSizes& sizes = problem.sizes;
  check_range(kName, "items", place.b, 1, sizes.batch);
  check_range(kName, "heads", place.head, 1, sizes.heads);
  check_range(kName, "queries", place.q, out.size(0), sizes.t_q);
  check_result(kName, "out", out);
  const bool heads = step == AttentionStep::heads;
  if (heads) {
    check(place.k == 0 && out.size(1) == problem.d_v, kName, "out has shape ", out.shape(), " and begins at key ",
          place.k, "; heads are [queries, Dv] with Dv = ", problem.d_v, ", over all keys (k = 0)");
  } else {
    check_range(kName, "keys", place.k, out.size(1), sizes.t_k);
  }
  if (out.count() == 0) return;
  const RowRange range{place.b, 1, place.head, 1, place.q, place.q + out.size(0)};
  if (heads) return write_heads(call, inputs, range, out);
  const bool unscaled = step == AttentionStep::scores;
  const Mask nothing_hidden;
  const Mask& mask = step < AttentionStep::masked ? nothing_hidden : options.mask;
  InsightJob job{inputs, rows, &mask, unscaled ? 1.0F : problem.score_factor};
  const View<float, 4> whole(out.data(), {1, 1, out.size(0), out.size(1)}, {0, 0, out.stride(0), out.stride(1)});
  write_tiles(call, job, {range, place.k, whole});
}

void attention_weights(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                       View<float, 4> out) {
  constexpr const char* kName = "attention_weights";
  const Call call = check_call(kName, inputs, options, rows, AttentionStep::weights);
  const MaskSizes& sizes = call.sizes();
  check_tensor(kName, "out", out, {sizes.batch, sizes.heads, sizes.t_q, sizes.t_k});
  if (out.count() == 0) return;
  InsightJob job{inputs, rows, &options.mask, call.problem.score_factor};
  write_tiles(call, job, {RowRange::all(sizes), 0, out});
}

void attention_row_insight(const AttentionInputs& inputs, const AttentionOptions& options, RowStates<const float> rows,
                           int64_t q_begin, const RowInsight& out) {
  constexpr const char* kName = "attention_row_insight";
  const Call call = check_call(kName, inputs, options, rows, AttentionStep::weights);
  const MaskSizes& sizes = call.sizes();
  check(out.entropy.data() == nullptr || options.scores.normaliser == Normaliser::softmax, kName,
        "entropy with the sigmoid normaliser: its weights are no distribution; ask for largest and top keys alone");
  const int64_t count = check_row_insight(kName, out, sizes);
  check_range(kName, "queries", q_begin, count, sizes.t_q);
  if (count == 0) return;
  const RowRange range{0, sizes.batch, 0, sizes.heads, q_begin, q_begin + count};
  const int64_t top_k = std::max(out.top_keys.size(3), out.top_weights.size(3));
  InsightJob job{inputs, rows, &options.mask, call.problem.score_factor};
  run_tasks<QueryBlock>(
      call, job.scores, scratch_of(call.problem, top_k),
      [&](auto visit) { for_each_block(sizes, options.mask, range, visit); },
      [&]<Isa isa>(const QueryBlock& block, Arena& scratch) {
        insight_rows_kernel<isa>(job, block, q_begin, out, scratch);
      });
}

void attention_mass_received(const AttentionInputs& inputs, const AttentionOptions& options,
                             RowStates<const float> rows, View<float, 3> out) {
  constexpr const char* kName = "attention_mass_received";
  const Call call = check_call(kName, inputs, options, rows, AttentionStep::weights);
  const MaskSizes& sizes = call.sizes();
  const Shape<3> expected{sizes.batch, sizes.heads, sizes.t_k};
  check(out.shape() == expected, kName, "out has shape ", out.shape(), ", expected [B, H, Tk] = ", expected);
  check_result(kName, "out", out);
  if (out.count() == 0) return;
  InsightJob job{inputs, rows, &options.mask, call.problem.score_factor};
  const auto for_each_task = [&](auto visit) {
    for_each_segment(sizes, options.mask, RowRange::all(sizes), [&](const QueryBlock& segment) {
      const int64_t end = segment.segment.k_end;
      for (int64_t k = segment.segment.k_begin; k < end; k += kMassKeys) {
        visit(MassBlock{segment, k, std::min(k + kMassKeys, end)});
      }
    });
  };
  run_tasks<MassBlock>(
      call, job.scores, scratch_of(call.problem), for_each_task,
      [&]<Isa isa>(const MassBlock& block, Arena& scratch) { insight_mass_kernel<isa>(job, block, out, scratch); });
}

}  // namespace heed
