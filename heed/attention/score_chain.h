// The chain of fused multiply-adds behind a score: the same bits in forward, backward and insight. Kernel sources only.
#pragma once

#include <algorithm>

#include "heed/attention/forward_kernel.h"
#include "heed/simd/register_tile.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// sums += a b, chain by chain. Not inlined, so that tiles of the usual widths keep their registers.
template <int R, int C>
HWY_NOINLINE void add_chains(const float* a, int64_t a_row, const float* b, int64_t b_step, int64_t depth,
                             float* sums) {
  for (int64_t k = 0; k < depth; k += kChainWidths) {
    RegisterTile<R, C> tile;
    tile.set_zero();
    tile.accumulate(a + k, a_row, 1, b + k * b_step, b_step, std::min(kChainWidths, depth - k));
    tile.add_to(sums, C * kLanes);
  }
}

// tile = a b over `depth` widths, in chains of kChainWidths that are added up in order.
template <int R, int C>
HWY_INLINE void score_chains(RegisterTile<R, C>& tile, const float* a, int64_t a_row, const float* b, int64_t b_step,
                             int64_t depth) {
  tile.set_zero();
  tile.accumulate(a, a_row, 1, b, b_step, std::min(kChainWidths, depth));
  if (depth <= kChainWidths) return;
  float sums[R * C * kLanes];
  tile.store(sums, C * kLanes);
  add_chains<R, C>(a + kChainWidths, a_row, b + kChainWidths * b_step, b_step, depth - kChainWidths, sums);
  tile.load(sums, C * kLanes);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
