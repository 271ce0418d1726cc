#include "heed/ops/matmul_sum.h"

#include <algorithm>

#include "heed/ops/matmul_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// The terms of one item of b [terms, K, N], as panels one after the other: each term [K][padded columns].
const float* pack_terms(const View<const float, 3>& b, const PanelLayout& panels, Arena& arena) {
  const int64_t depth = b.size(1);
  const int64_t term_size = depth * panels.padded_columns();
  float* const packed = arena.take<float>(b.size(0) * term_size);
  dispatch([&]<Isa isa>() {
    parallel_for(b.size(0) * panels.count(), [&](int64_t task, int) {
      const int64_t term = task / panels.count();
      const int64_t panel = task % panels.count();
      float* const to = packed + term * term_size + depth * panels[panel].column;
      pack_panel_kernel<isa>({b[term], 0, depth}, panels, panel, to);
    });
  });
  return packed;
}

// All terms of a block of c, one after the other.
class SummedProducts {
 public:
  SummedProducts(const View<const float, 4>& a, const View<const float, 4>& b, const View<float, 3>& c,
                 const MatmulSumOptions& options, Arena& arena)
      : a_(a), b_(b), c_(c), options_(options), panels_(panel_layout(isa(), c.size(2))) {
    if (c.size(0) > 1 && b.stride(0) == 0) packed_ = pack_terms(b[0], panels_, arena);
  }

  int64_t terms() const { return a_.size(1); }

  MatmulCall call(int64_t item, int64_t term) const {
    MatmulCall call;
    call.panels = panels_;
    call.a = a_[item][term];
    call.b = b_[item][term];
    if (packed_ != nullptr) call.packed = packed_ + term * call.b.size(0) * panels_.padded_columns();
    call.c = c_[item];
    if (term == 0) call.bias = options_.bias;
    call.activation = options_.activation;
    if (options_.derivative.data() != nullptr) call.derivative = options_.derivative[item];
    call.accumulate = options_.accumulate || term > 0;
    return call;
  }

 private:
  const View<const float, 4>& a_;
  const View<const float, 4>& b_;
  const View<float, 3>& c_;
  const MatmulSumOptions& options_;
  PanelLayout panels_;
  const float* packed_ = nullptr;
};

}  // namespace

void matmul_sum(View<const float, 4> a, View<const float, 4> b, View<float, 3> c, const MatmulSumOptions& options) {
  if (c.count() == 0) return;
  if (a.size(1) == 0) {  // one product of depth 0
    a = {nullptr, {c.size(0), 1, c.size(1), 0}};
    b = {nullptr, {c.size(0), 1, 0, c.size(2)}};
  }
  CallArena arena(options.arena);
  const SummedProducts products(a, b, c, options, *arena);
  MatmulCall plan = products.call(0, 0);
  const MatmulSplit split = plan_matmul(plan, c.size(0), threads());
  const int64_t blocks = split.row_blocks * split.panel_blocks;
  const WorkerArenas scratch(*arena, split.serial ? 1 : threads(), split.scratch_bytes);
  dispatch([&]<Isa isa>() {
    const auto body = [&](int64_t task, int worker) {
      MatmulBlock block;
      block.row = task % blocks / split.panel_blocks * split.block_rows;
      block.rows = std::min(split.block_rows, plan.a.size(0) - block.row);
      block.panel = task % split.panel_blocks * split.block_panels;
      block.panels = std::min(split.block_panels, plan.panels.count() - block.panel);
      for (int64_t term = 0; term < products.terms(); ++term) {
        MatmulCall call = products.call(task / blocks, term);
        call.copy_a = plan.copy_a;
        call.direct_b = plan.direct_b;
        call.linear = plan.linear;
        Arena mine = scratch.of(worker);
        matmul_kernel<isa>(call, block, mine);
      }
    };
    if (!split.serial) return parallel_for(c.size(0) * blocks, body);
    for (int64_t task = 0; task < c.size(0) * blocks; ++task) body(task, 0);
  });
}

}  // namespace heed
