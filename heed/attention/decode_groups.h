// Groups of pieces in the decode kernel, with the arithmetic of forward_groups.h. For decode_kernel.cpp only.
#pragma once

#include <algorithm>
#include <limits>

#include "heed/attention/decode_rows.h"
#include "heed/attention/softmax_state.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// After `piece`, where it is the last of its group but not of the item: the group into the total.
inline void DecodeRows::close_group(int64_t piece, int64_t first, int64_t count) {
  if ((piece + 1) % kGroupPieces != 0 || piece + 1 == item_.end_piece) return;
  if (!has_total_) {
    std::fill_n(total_shift_ + first, count, -std::numeric_limits<float>::infinity());
    std::fill_n(total_sum_ + first, count, 0.0F);
    std::fill_n(rest_sum_ + first, count, 0.0F);
    std::fill_n(total_o_ + first * layout_.v_step, count * layout_.v_step, 0.0F);
    std::fill_n(rest_o_ + first * layout_.v_step, count * layout_.v_step, 0.0F);
    has_total_ = true;
  }
  for (int64_t row = first; row < first + count; ++row) add_group_to_total(row);
  clear_states(first, count);
}

inline void DecodeRows::add_group_to_total(int64_t row) {
  const Rescale scale = rescale(hn::Set(kFloats, total_shift_[row]), hn::Set(kFloats, shift_[row]));
  total_shift_[row] = hn::GetLane(scale.shift);
  Vector sum = hn::Mul(hn::Set(kFloats, total_sum_[row]), scale.old);
  Vector rest = hn::Mul(hn::Set(kFloats, rest_sum_[row]), scale.old);
  add_with_rest(hn::Mul(hn::Set(kFloats, sum_[row]), scale.added), sum, rest);
  total_sum_[row] = hn::GetLane(sum);
  rest_sum_[row] = hn::GetLane(rest);
  for (int64_t d = row * layout_.v_step; d < row * layout_.v_step + layout_.d_v; d += kLanes) {
    add_to_total(scale, o_ + d, total_o_ + d, rest_o_ + d);
  }
}

// The states of all keys, in the place of the last group's.
inline void DecodeRows::finish_groups(int64_t first, int64_t count) {
  if (!has_total_) return;
  for (int64_t row = first; row < first + count; ++row) {
    add_group_to_total(row);
    shift_[row] = total_shift_[row];
    const float rest = rest_sum_[row];
    sum_[row] = rest == rest ? total_sum_[row] + rest : total_sum_[row];
    for (int64_t d = row * layout_.v_step; d < row * layout_.v_step + layout_.d_v; d += kLanes) {
      add_rest(rest_o_ + d, total_o_ + d);
      hn::StoreU(hn::LoadU(kFloats, total_o_ + d), kFloats, o_ + d);
    }
  }
  has_total_ = false;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
