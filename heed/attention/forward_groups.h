// Groups of pieces in the forward kernel: pieces add up in a group, groups in a total that keeps what rounding loses.
// So the error of a long row is that of a short one. For forward_kernel.cpp only.
#pragma once

#include <algorithm>
#include <utility>

#include "heed/attention/forward_block.h"
#include "heed/attention/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline void ForwardBlock::start_group(QueryPanel& panel, RowMode mode) {
  panel.started = false;
  panel.zero_shifts = mode != RowMode::true_maximum;
  std::fill_n(panel.group.shift, kWidth, -kInfinity);
  std::fill_n(panel.group.sum, kWidth, 0.0F);
}

// The group becomes the total, or a part of it.
inline void ForwardBlock::close_group(QueryPanel& panel, RowMode mode) {
  if (!panel.started) return;
  if (panel.has_total) {
    add_group_to_total(panel);
  } else {
    std::swap(panel.group, panel.total);
    std::fill_n(panel.rest.o, d_v_ * kWidth, 0.0F);
    std::fill_n(panel.rest.sum, kWidth, 0.0F);
    panel.has_total = true;
  }
  start_group(panel, mode);
}

inline void ForwardBlock::add_group_to_total(QueryPanel& panel) {
  for (int c = 0; c < panel.vectors; ++c) {
    const int64_t at = int64_t{c} * kLanes;
    const Rescale scale =
        rescale(hn::LoadU(kFloats, panel.total.shift + at), hn::LoadU(kFloats, panel.group.shift + at));
    hn::StoreU(scale.shift, kFloats, panel.total.shift + at);
    add_to_total(scale, panel.group.sum + at, panel.total.sum + at, panel.rest.sum + at);
    for (int64_t d = at; d < at + d_v_ * kWidth; d += kWidth) {
      add_to_total(scale, panel.group.o + d, panel.total.o + d, panel.rest.o + d);
    }
  }
}

// The state of all keys, in the place of the last group's.
inline void ForwardBlock::finish_groups(QueryPanel& panel) {
  if (!panel.has_total) return;
  if (panel.started) add_group_to_total(panel);
  panel.started = true;
  std::swap(panel.group, panel.total);
  for (int64_t at = 0; at < panel.vectors * kLanes; at += kLanes) {
    add_rest(panel.rest.sum + at, panel.group.sum + at);
    for (int64_t d = at; d < at + d_v_ * kWidth; d += kWidth) add_rest(panel.rest.o + d, panel.group.o + d);
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
