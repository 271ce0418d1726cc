// Forward: checks, the list of query blocks, and the dispatch to the kernels.
#include <algorithm>
#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/core/memory.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// Calls visit(block) for every block of queries: head by head, so that a head's k and v stay in the cache, the last
// queries first, because under a causal mask they have the most work.
template <class Visit>
void for_each_query_block(const Problem& problem, const Mask& mask, Visit visit) {
  const MaskSizes& sizes = problem.sizes;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const KeyRangeRule rule = mask.key_range_rule(sizes, b);
    for (int64_t head = 0; head < sizes.heads; ++head) {
      for (int64_t n = mask.segment_count(b) - 1; n >= 0; --n) {
        const Segment at = mask.segment(sizes, b, n);
        QueryBlock block{b, head, 0, 0, at.k_begin, rule};
        block.rule.begin = std::max(rule.begin, at.k_begin);
        block.rule.end = std::min(rule.end, at.k_end);
        for (int64_t i = divide_up(at.q_end - at.q_begin, kBlockQueries) - 1; i >= 0; --i) {
          block.q_begin = at.q_begin + i * kBlockQueries;
          block.q_end = std::min(block.q_begin + kBlockQueries, at.q_end);
          visit(block);
        }
      }
    }
  }
}

}  // namespace

void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows) {
  constexpr const char* kName = "attention_forward";
  const Problem problem = check_problem(kName, inputs, options);
  const MaskSizes& sizes = problem.sizes;
  check_tensor(kName, "out", out, {sizes.batch, sizes.t_q, sizes.heads, problem.d_v});
  check_rows(kName, rows, sizes, false);
  const ForwardJob job{inputs, out, rows, &options.mask, problem.scale * kLog2E};

  dispatch([&]<Isa isa>() {
    int64_t blocks = 0;
    for_each_query_block(problem, options.mask, [&](const QueryBlock&) { ++blocks; });
    constexpr auto kBlockBytes = static_cast<int64_t>(sizeof(QueryBlock));
    constexpr auto kLine = static_cast<int64_t>(kAlignment / sizeof(float));
    const int64_t list_floats = round_up(divide_up<int64_t>(blocks * kBlockBytes, sizeof(float)), kLine);
    const int64_t scratch = round_up(forward_scratch<isa>(problem.d_k, problem.d_v), kLine);

    Workspace own;
    Workspace& workspace = options.workspace != nullptr ? *options.workspace : own;
    float* memory = workspace.floats(static_cast<size_t>(list_floats + threads() * scratch));
    auto* list = reinterpret_cast<QueryBlock*>(memory);
    int64_t at = 0;
    for_each_query_block(problem, options.mask, [&](const QueryBlock& block) { std::construct_at(list + at++, block); });
    parallel_for(blocks, [&](int64_t task, int worker) {
      forward_block<isa>(job, list[task], memory + list_floats + worker * scratch);
    });
  });
}

}  // namespace heed
