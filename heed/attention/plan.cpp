// Describes what a call will do without running it.
#include <algorithm>
#include <limits>
#include <sstream>

#include "heed/attention/attention.h"
#include "heed/attention/forward_kernel.h"
#include "heed/attention/problem.h"
#include "heed/attention/query_blocks.h"
#include "heed/simd/isa.h"

namespace heed {

AttentionPlan attention_plan(const AttentionInputs& inputs, const AttentionOptions& options) {
  constexpr const char* kName = "attention_plan";
  const Problem problem = check_problem(kName, inputs, options);
  AttentionPlan plan;
  plan.isa = isa_name(isa());
  plan.mask = options.mask.description();
  plan.piece_keys = kPieceKeys;
  for_each_query_block(problem, options.mask, [&](const QueryBlock& block) {
    const int64_t pieces = divide_up(block.segment.k_end - block.segment.k_begin, kPieceKeys);
    const KeyRange first = block.rule.at(block.q_begin);
    const KeyRange last = block.rule.at(block.q_end - 1);
    // Bounds only rise from query to query, so these are the block's.
    const int64_t begin = first.begin - block.segment.k_begin;
    const int64_t end = last.end - block.segment.k_begin;
    const int64_t visited = begin < end ? divide_up(end, kPieceKeys) - begin / kPieceKeys : 0;
    plan.pieces += visited;
    plan.pieces_skipped += pieces - visited;
  });
  plan.visible_pairs = options.mask.visible_pairs(problem.sizes);
  const int64_t most_flops = multiply_saturating(2 * (3 * problem.d_k + 2 * problem.d_v), plan.visible_pairs);
  check(most_flops < std::numeric_limits<int64_t>::max(), kName, "the FLOPs of ", plan.visible_pairs,
        " visible pairs of widths ", problem.d_k, " and ", problem.d_v, " are above 2^63");
  plan.flops_forward = 2 * (problem.d_k + problem.d_v) * plan.visible_pairs;
  plan.flops_backward = 2 * (3 * problem.d_k + 2 * problem.d_v) * plan.visible_pairs;
  const int64_t outputs = problem.sizes.batch * problem.sizes.t_q * problem.sizes.heads * problem.d_v;
  plan.bytes = static_cast<int64_t>(sizeof(float)) * (inputs.q.count() + inputs.k.count() + inputs.v.count() + outputs);
  Arena arena = Arena::dry_run();
  const ForwardMemory memory(arena, problem, options);
  plan.workspace_bytes = static_cast<int64_t>(arena.peak_bytes());
  return plan;
}

std::string AttentionPlan::to_text() const {
  std::ostringstream text;
  text << "instruction set   " << isa << "\n"
       << "mask              " << mask << "\n"
       << "visible pairs     " << visible_pairs << "\n"
       << "pieces            " << pieces << " of " << piece_keys << " keys, " << pieces_skipped << " skipped\n"
       << "FLOPs             " << flops_forward << " forward, " << flops_backward << " backward\n"
       << "bytes             " << bytes << "\n"
       << "workspace bytes   " << workspace_bytes << "\n";
  return text.str();
}

}  // namespace heed
