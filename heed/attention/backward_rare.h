// Slow paths of the backward kernel: rows that see one key, and nonfinite values. For backward_kernel.cpp only.
#pragma once

#include <algorithm>
#include <limits>

#include "heed/attention/backward_block.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// A row that sees one key gives it weight 1 for any score, so the gradient of its scores is exactly 0.
inline void BackwardBlock::find_single_keys(QueryTile& tile) const {
  tile.has_single = false;
  if (job_.scores.sigmoid || job_.scores.sinks.data() != nullptr) return;
  for (int64_t row = 0; row < tile.rows; ++row) {
    // Count within this block first: few rows see a single key of it, and only those need their whole row checked.
    const int64_t begin = tile.begin[row];
    const int64_t end = tile.end[row];
    const float* const dense = dense_ + row * kBlockKeys;
    const int64_t here = has_dense(tile) ? std::count(dense + begin, dense + end, 1.0F) : end - begin;
    tile.single[row] = here == 1 && sees_one_key(tile.head, tile.q_begin + row);
    tile.has_single = tile.has_single || tile.single[row];
  }
}

inline bool BackwardBlock::sees_one_key(int64_t head, int64_t q) const {
  const KeyRange range = block_.rule.at(q);
  const bool has_bias = job_.scores.bias.data() != nullptr;
  if (!has_bias && job_.mask->dense().empty()) return range.end - range.begin == 1;
  const float* const bias = has_bias ? job_.scores.bias_row(block_.b, head, q, 0) : nullptr;
  int64_t seen = 0;
  for (int64_t key = range.begin; key < range.end && seen < 2; ++key) {
    const bool shown = !has_bias || bias[key] != -std::numeric_limits<float>::infinity();
    if (shown && job_.mask->dense_shows(block_.b, head, q, key)) ++seen;
  }
  return seen == 1;
}

// Multiplies by 0, so that NaN stays NaN.
inline void BackwardBlock::zero_single_keys(const QueryTile& tile) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    if (!tile.single[row]) continue;
    for (int64_t key = tile.begin[row]; key < tile.end[row]; ++key) {
      ds_[row * kBlockKeys + key] *= 0.0F;
      if (job_.scores.has_options) d_masked_[row * kBlockKeys + key] *= 0.0F;
    }
  }
}

// Pass 3 if a hidden q, k or d_out is not finite: the same chains without the hidden pairs.
inline void BackwardBlock::multiply_queries_careful(const QueryTile& tile) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    for (int64_t i = 0; i < width_k_; i += kLanes) {
      Vector sum = hn::Zero(kFloats);
      for (int64_t key = tile.begin[row]; key < tile.end[row]; ++key) {
        if (!visible(tile, row, key)) continue;
        sum = hn::MulAdd(hn::Set(kFloats, ds_[row * kBlockKeys + key]),
                         hn::LoadU(kFloats, k_copy_ + key * width_k_ + i), sum);
      }
      hn::StoreU(sum, kFloats, d_q_ + row * width_k_ + i);
    }
  }
}

inline void BackwardBlock::multiply_keys_careful(const QueryTile& tile, const float* weights, const float* rows,
                                                 const KeySums& sums) {
  for (int64_t key = 0; key < keys_; ++key) {
    for (int64_t i = 0; i < sums.width; i += kLanes) {
      Vector sum = hn::Zero(kFloats);
      for (int64_t row = 0; row < tile.rows; ++row) {
        if (!visible(tile, row, key)) continue;
        sum = hn::MulAdd(hn::Set(kFloats, weights[row * kBlockKeys + key]),
                         hn::LoadU(kFloats, rows + row * sums.width + i), sum);
      }
      float* const to = sums.group + key * sums.width + i;
      hn::StoreU(hn::Add(hn::LoadU(kFloats, to), sum), kFloats, to);
    }
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
