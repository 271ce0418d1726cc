// Groups of tiles in the backward kernel: tiles of queries add up in a group, groups in a total that keeps what
// rounding loses. So the error of d_k and d_v does not grow with the number of queries. For backward_kernel.cpp only.
#pragma once

#include <algorithm>
#include <utility>

#include "heed/attention/backward_block.h"
#include "heed/attention/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// The group of tiles becomes the total of d_k and d_v, or a part of it.
inline void BackwardBlock::close_group() {
  if (!group_started_) return;
  for (KeySums* sums : {&d_k_sums_, &d_v_sums_}) {
    if (has_total_) {
      add_group_to_total(*sums);
    } else {
      std::swap(sums->group, sums->total);
      std::fill_n(sums->rest, keys_ * sums->width, 0.0F);
    }
    std::fill_n(sums->group, keys_ * sums->width, 0.0F);
  }
  has_total_ = true;
  group_started_ = false;
}

inline void BackwardBlock::add_group_to_total(const KeySums& sums) const {
  for (int64_t i = 0; i < keys_ * sums.width; i += kLanes) {
    Vector total = hn::LoadU(kFloats, sums.total + i);
    Vector rest = hn::LoadU(kFloats, sums.rest + i);
    add_with_rest(hn::LoadU(kFloats, sums.group + i), total, rest);
    hn::StoreU(total, kFloats, sums.total + i);
    hn::StoreU(rest, kFloats, sums.rest + i);
  }
}

// The sums over all queries, in the place of the group's.
inline void BackwardBlock::finish_groups() {
  if (!has_total_) return;
  for (KeySums* sums : {&d_k_sums_, &d_v_sums_}) {
    if (group_started_) add_group_to_total(*sums);
    std::swap(sums->group, sums->total);
    for (int64_t i = 0; i < keys_ * sums->width; i += kLanes) add_rest(sums->rest + i, sums->group + i);
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
