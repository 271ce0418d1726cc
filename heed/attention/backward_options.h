// What the backward kernel does for score options: forward's passes over each register tile of scores, their
// derivatives, and the gradients of the options. For backward_kernel.cpp only.
//
// With options v is packed without the scale, so that
//     d_masked = p ∘ (kept ∘ d_o vᵀ - delta)   or, with sigmoid,   p ∘ (1 - p) ∘ kept ∘ d_o vᵀ
// is the gradient of every bias, and ds = scale · (cap's slope) · d_masked.
#pragma once

#include <cmath>
#include <thread>

#include "heed/attention/backward_block.h"
#include "heed/attention/score_chain.h"
#include "heed/attention/score_passes.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// The tile's rows of the dense bias, and the words of their dropout. Where -∞ hides keys the tile is masked.
inline void BackwardBlock::load_options(QueryTile& tile) {
  const ScoreJob& job = job_.scores;
  if (job.dropout != nullptr) {
    const Rng rng = dropout_head(*job.dropout, block_.b, tile.head);
    for (int64_t row = 0; row < tile.rows; ++row) dropout_[row] = dropout_row(rng, tile.q_begin + row);
  }
  if (job.bias.data() == nullptr) return;
  bias_rows_ = job.bias_row(block_.b, tile.head, tile.q_begin, block_.k_begin);
  bias_step_ = job.bias.stride(2);
  Vector least = hn::Zero(kFloats);
  float least_of_rest = 0.0F;
  const int64_t whole = keys_ / kLanes * kLanes;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* const from = bias_rows_ + row * bias_step_;
    for (int64_t key = 0; key < whole; key += kLanes) least = hn::Min(hn::LoadU(kFloats, from + key), least);
    for (int64_t key = whole; key < keys_; ++key) least_of_rest = std::min(least_of_rest, from[key]);
    // Whole vectors are read: where the last one is not, the rows are copied.
    if (whole < keys_) std::copy_n(from, keys_, bias_copy_ + row * kBlockKeys);
  }
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  tile.hidden_by_bias = least_of_rest == kHidden || !hn::AllFalse(kFloats, hn::Eq(least, hn::Set(kFloats, kHidden)));
  tile.masked = tile.masked || tile.hidden_by_bias;
  if (whole == keys_) return;
  bias_rows_ = bias_copy_;
  bias_step_ = kBlockKeys;
}

// 1 and 2 with options, for R rows and C vectors.
template <int R, int C>
void BackwardBlock::option_tile(const QueryTile& tile, int64_t row, int panel, int first_vector, bool masked) {
  constexpr int64_t kStep = C * kLanes;
  const ScoreJob& job = job_.scores;
  const int64_t key = panel_[panel].first + first_vector * kLanes;
  const VisibleLanes visible_lanes = lanes_of(tile, row, key);
  const auto shown = [&](int r, int c, Vector value) HWY_ATTR { return masked ? visible_lanes(r, c, value) : value; };
  HWY_ALIGN float scores[R * kStep];
  HWY_ALIGN float slopes[R * kStep];
  const ScoreTile score_tile{scores, kStep, R, C};
  RegisterTile<R, C> sums;
  score_chains(sums, q_scaled_ + row * width_k_, width_k_,
               k_lanes_ + panel * kKeyPanelWidth * d_k_ + first_vector * kLanes, kKeyPanelWidth, d_k_);
  sums.store(scores, kStep);
  const float* const bias = job.bias.data() == nullptr ? nullptr : bias_rows_ + row * bias_step_ + key;
  const int64_t bias_step = bias_step_;
  const auto keep_slope = [&](int64_t r, int c, Vector capped) HWY_ATTR {
    hn::StoreU(cap_slope(job, capped), kFloats, slopes + r * kStep + c * kLanes);
  };
  apply_with_keys_in_lanes(job, {block_.b, tile.head, tile.q_begin + row, block_.k_begin + key}, score_tile, keep_slope,
                           [=](int64_t r, int c)
                               HWY_ATTR { return hn::LoadU(kFloats, bias + r * bias_step + c * kLanes); });
  const float* const shift = shift_ + row;
  transform(score_tile, [&](int64_t r, int c, Vector score) HWY_ATTR {
    return shown(static_cast<int>(r), c, weight_of(job, hn::Sub(score, hn::Set(kFloats, shift[r]))));
  });

  sums.set_zero();
  sums.accumulate(d_o_rows_ + row * width_v_, width_v_, 1,
                  v_lanes_ + panel * kKeyPanelWidth * d_v_ + first_vector * kLanes, kKeyPanelWidth, d_v_);
  const float* const delta = delta_ + row;
  float* const p_at = p_ + row * kBlockKeys + key;
  float* const ds_at = ds_ + row * kBlockKeys + key;
  float* const d_masked_at = d_masked_ + row * kBlockKeys + key;
  const Vector scale = hn::Set(kFloats, job_.scale);
  const int32_t threshold = job.dropout == nullptr ? 0 : dropout_threshold(*job.dropout);
  const auto first_key = static_cast<uint32_t>(block_.k_begin + key);
  sums.for_each([&](int r, int c, Vector d_weight) HWY_ATTR {
    const int64_t at = r * kBlockKeys + c * kLanes;
    const Vector p = hn::LoadU(kFloats, scores + r * kStep + c * kLanes);
    Vector dropped = p;
    if (job.dropout != nullptr) {
      const Vector keep = kept_keys(dropout_[row + r], first_key + static_cast<uint32_t>(c * kLanes), threshold);
      dropped = hn::Mul(p, keep);
      d_weight = hn::Mul(d_weight, keep);
    }
    const Vector slope_of_p = job.sigmoid ? hn::NegMulAdd(p, p, p) : p;
    const Vector centred = job.sigmoid ? d_weight : hn::Sub(d_weight, hn::Set(kFloats, delta[r]));
    const Vector d_masked = shown(r, c, hn::Mul(slope_of_p, centred));
    Vector ds = hn::Mul(d_masked, scale);
    if (job.cap != 0.0F) ds = hn::Mul(ds, hn::LoadU(kFloats, slopes + r * kStep + c * kLanes));
    hn::StoreU(dropped, kFloats, p_at + at);
    hn::StoreU(d_masked, kFloats, d_masked_at + at);
    hn::StoreU(shown(r, c, ds), kFloats, ds_at + at);  // the slope of a hidden score may be NaN
  });
}

// Adds the tile's part of the gradients of biases; to d_bias also where the tile shows nothing.
inline void BackwardBlock::add_option_gradients(const QueryTile& tile, int64_t g, bool visited) const {
  const View<float, 4>& d_bias = job_.gradients.scores.d_bias.view;
  if (d_bias.data() != nullptr) {
    const bool first = block_.bias_before == nullptr && (g == 0 || d_bias.size(1) > 1) && !job_.adds_to_bias;
    for (int64_t row = 0; row < tile.rows; ++row) {
      float* const to = &d_bias(d_bias.size(0) == 1 ? 0 : block_.b, d_bias.size(1) == 1 ? 0 : tile.head,
                                tile.q_begin + row, block_.k_begin);
      const float* const from = d_masked_ + row * kBlockKeys;
      int64_t key = tile.begin[row];
      if (first) {
        std::fill_n(to, key, 0.0F);
        // -0 becomes 0, as where it is added to 0.
        std::transform(from + key, from + tile.end[row], to + key, [](float value) { return value + 0.0F; });
        std::fill(to + tile.end[row], to + keys_, 0.0F);
        continue;
      }
      for (; key + kLanes <= tile.end[row]; key += kLanes) {
        hn::StoreU(hn::Add(hn::LoadU(kFloats, to + key), hn::LoadU(kFloats, from + key)), kFloats, to + key);
      }
      for (; key < tile.end[row]; ++key) to[key] += from[key];
    }
  }
  if (visited && block_.position_sums != nullptr) add_position_gradients(tile, g);
}

// Sums d_masked over the pairs of each distance, in registers, then adds them to the slope's and the buckets' sums.
inline void BackwardBlock::add_position_gradients(const QueryTile& tile, int64_t g) const {
  const PositionBias& positions = job_.scores.positions;
  const int64_t last_row = tile.rows - 1;
  const int64_t first_distance = block_.k_begin - tile.q_begin - last_row - block_.query_offset;
  const int32_t* const buckets = positions.buckets_of(block_.b);
  const int64_t first_place = positions.at(tile.q_begin + last_row, block_.k_begin);
  double* const sums = block_.position_sums + g * job_.position_sums;
  HWY_ALIGN float of_distance[kLanes];
  for (int64_t base = 0; base < keys_ + last_row; base += kLanes) {
    // In row r the lanes hold keys base + r - last_row … of the block.
    const int64_t from_row = std::max<int64_t>(last_row - base - kLanes + 1, 0);
    const int64_t to_row = std::min<int64_t>(last_row - base + keys_, tile.rows);
    Vector sum = hn::Zero(kFloats);
    for (int64_t row = from_row; row < to_row; ++row) {
      const int64_t key = base + row - last_row;
      const auto seen = keys_in_interval(key, tile.begin[row], tile.end[row]);
      sum = hn::Add(sum, hn::IfThenElseZero(seen, hn::LoadU(kFloats, d_masked_ + row * kBlockKeys + key)));
    }
    hn::Store(sum, kFloats, of_distance);
    const int64_t lanes = std::min<int64_t>(kLanes, keys_ + last_row - base);
    for (int64_t i = 0; i < lanes; ++i) {
      const auto value = static_cast<double>(of_distance[i]);
      sums[0] -= static_cast<double>(std::abs(first_distance + base + i)) * value;
      if (buckets != nullptr) sums[1 + buckets[first_place + base + i]] += value;
    }
  }
}

// Heads and items that share d_bias add to it in their order.
inline void BackwardBlock::wait_for_bias_turn(int64_t step) const {
  const int64_t group = job_.inputs.q.size(2) / job_.inputs.k.size(2);
  if (block_.bias_before == nullptr || step >= block_.tiles) return;  // the group's other heads come after its first
  for (const KeyBlock* other = block_.bias_before; other != block_.bias_before_end; ++other) {
    const int64_t wanted = block_.bias_by_tile ? (group - 1) * other->tiles + step + 1 : group * other->tiles;
    while (other->done->load(std::memory_order_acquire) < wanted) std::this_thread::yield();
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
