// Fused attention, backward, for one block of keys of one key/value head. Keys are in lanes for the scores, widths are
// in lanes for the products. It mirrors forward_kernel.cpp, with p = 256^(score - shift) not yet divided by the sum
// and d_o = d_out / sum instead, so that p · d_o are the forward's own weights:
//
//   for each query head of the group, for each tile of queries:
//     1. p  = 256^(q kᵀ - shift)               forward 1, 2
//     2. ds = p ∘ scale · (d_o vᵀ - rowsum(d_o ∘ out))
//     3. d_q += ds · k,   d_v += pᵀ · d_o,   d_k += dsᵀ · q         forward 3
//   after each group of tiles: d_k and d_v into their totals         backward_groups.h
#include <algorithm>
#include <thread>

#include "heed/attention/backward_block.h"
#include "heed/attention/backward_groups.h"
#include "heed/attention/backward_options.h"
#include "heed/attention/backward_rare.h"
#include "heed/attention/score_chain.h"
#include "heed/attention/visible_keys.h"
#include "heed/core/memory.h"
#include "heed/simd/math.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

BackwardBlock::BackwardBlock(const BackwardJob& job, const KeyBlock& block, Arena& scratch)
    : job_(job),
      block_(block),
      keys_(block.k_end - block.k_begin),
      d_k_(job.inputs.k.size(3)),
      d_v_(job.inputs.v.size(3)),
      width_k_(round_up<int64_t>(d_k_, kLanes)),
      width_v_(round_up<int64_t>(d_v_, kLanes)) {
  for (int64_t key = 0; key < keys_; ++panels_) {
    const int vectors = next_tile_vectors(divide_up<int64_t>(keys_ - key, kLanes));
    panel_[panels_] = {key, vectors};
    key += vectors * kLanes;
  }
  const auto take = [&scratch](int64_t floats) { return scratch.take<float>(floats); };
  k_lanes_ = take(panels_ * kKeyPanelWidth * d_k_);
  v_lanes_ = take(panels_ * kKeyPanelWidth * d_v_);
  k_copy_ = take(kBlockKeys * width_k_);
  q_scaled_ = take(kTileQueries * width_k_);
  q_copy_ = take(kTileQueries * width_k_);
  d_o_rows_ = take(kTileQueries * width_v_);
  p_ = take(kTileQueries * kBlockKeys);
  ds_ = take(kTileQueries * kBlockKeys);
  d_q_ = take(kTileQueries * width_k_);
  d_k_sums_ = {width_k_, take(kBlockKeys * width_k_)};
  d_v_sums_ = {width_v_, take(kBlockKeys * width_v_)};
  dense_ = take(kTileQueries * kBlockKeys);
  d_masked_ = take(kTileQueries * kBlockKeys);
  bias_copy_ = take(kTileQueries * kBlockKeys);
  for (KeySums* sums : {&d_k_sums_, &d_v_sums_}) {
    sums->total = take(kBlockKeys * sums->width);
    sums->rest = take(kBlockKeys * sums->width);
  }
}

void BackwardBlock::run() {
  pack_keys();
  for (const KeySums& sums : {d_k_sums_, d_v_sums_}) std::fill_n(sums.group, keys_ * sums.width, 0.0F);
  const int64_t query_heads = job_.inputs.q.size(2) / job_.inputs.k.size(2);
  QueryTile tile;
  int64_t step = 0;
  for (int64_t g = 0; g < query_heads; ++g) {
    tile.head = block_.kv_head * query_heads + g;
    for (int64_t q = block_.segment.q_begin; q < block_.segment.q_end; q += kTileQueries, ++step) {
      tile.q_begin = q;
      tile.rows = std::min(kTileQueries, block_.segment.q_end - q);
      if (set_ranges(tile)) {
        const bool rows_finite = load_rows(tile);
        tile.careful = tile.masked && !(rows_finite && keys_finite_);
        fill_scores(tile);
        wait_for_bias_turn(step);
        if (job_.scores.has_options) add_option_gradients(tile, g, true);
        if (tile.careful) {
          multiply_queries_careful(tile);
          multiply_keys_careful(tile, p_, d_o_rows_, d_v_sums_);
          multiply_keys_careful(tile, ds_, q_rows_, d_k_sums_);
        } else {
          multiply_queries(tile);
          multiply_keys(tile, p_, d_o_rows_, d_v_sums_);
          multiply_keys(tile, ds_, q_rows_, d_k_sums_);
        }
        group_started_ = true;
        wait_for_turn(step);
        add_query_gradient(tile);
      } else {
        wait_for_bias_turn(step);
        if (job_.scores.has_options) add_option_gradients(tile, g, false);
        wait_for_turn(step);
        if (writes_d_q()) write_no_query_gradient(tile);
      }
      if (block_.done != nullptr) block_.done->store(step + 1, std::memory_order_release);
      const bool head_goes_on = q + kTileQueries < block_.segment.q_end;
      if (head_goes_on && step % block_.tiles % kGroupTiles == kGroupTiles - 1) close_group();
    }
    if (g + 1 < query_heads) close_group();
  }
  finish_groups();
  write_key_gradients();
}

// Copies rows of d floats, times factor(row), into rows of `width`, zero-padded; if `unscaled` is not null, also
// without the factor. Returns false if a value is not finite.
template <class Factor>
HWY_INLINE bool copy_rows(const float* from, int64_t from_step, int64_t rows, int64_t d, Factor factor, float* to,
                          int64_t width, float* unscaled = nullptr) {
  const Vector zero = hn::Zero(kFloats);
  const int64_t whole = d / kLanes * kLanes;
  Vector probe = zero;
  for (int64_t row = 0; row < rows; ++row) {
    const float* in = from + row * from_step;
    float* out = to + row * width;
    const float scale = factor(row);
    const auto copy = [&](Vector value, int64_t i) HWY_ATTR {
      const Vector scaled = hn::Mul(value, hn::Set(kFloats, scale));
      probe = hn::MulAdd(scaled, zero, probe);
      hn::StoreU(scaled, kFloats, out + i);
      if (unscaled != nullptr) hn::StoreU(value, kFloats, unscaled + row * width + i);
    };
    for (int64_t i = 0; i < whole; i += kLanes) copy(hn::LoadU(kFloats, in + i), i);
    if (whole == d) continue;
    HWY_ALIGN float tail[kLanes] = {};
    std::copy(in + whole, in + d, tail);
    copy(hn::Load(kFloats, tail), whole);
  }
  return hn::AllTrue(kFloats, hn::Eq(probe, zero));
}

void BackwardBlock::pack_keys() {
  const View<const float, 4>& k = job_.inputs.k;
  const View<const float, 4>& v = job_.inputs.v;
  const float* const k_rows = &k(block_.b, block_.k_begin, block_.kv_head, 0);
  const float* const v_rows = &v(block_.b, block_.k_begin, block_.kv_head, 0);
  keys_finite_ = copy_rows(
      k_rows, k.stride(1), keys_, d_k_, [](int64_t) { return 1.0F; }, k_copy_, width_k_);
  for (int i = 0; i < panels_; ++i) {
    for (int c = 0; c < panel_[i].vectors; ++c) {
      const int64_t key = panel_[i].first + int64_t{c} * kLanes;
      const int64_t rows = std::min<int64_t>(kLanes, keys_ - key);
      rows_to_lanes(k_copy_ + key * width_k_, width_k_, rows, d_k_, 1.0F,
                    k_lanes_ + i * kKeyPanelWidth * d_k_ + c * kLanes, kKeyPanelWidth);
      rows_to_lanes(v_rows + key * v.stride(1), v.stride(1), rows, d_v_, job_.value_scale,
                    v_lanes_ + i * kKeyPanelWidth * d_v_ + c * kLanes, kKeyPanelWidth);
    }
  }
}

// The keys of the block that each row may see. False if there are none.
bool BackwardBlock::set_ranges(QueryTile& tile) const {
  tile.masked = !job_.mask->dense().empty();
  tile.hidden_by_bias = false;
  bool any = false;
  for (int64_t row = 0; row < tile.rows; ++row) {
    const KeyRange range = block_.rule.at(tile.q_begin + row);
    const int64_t begin = std::clamp<int64_t>(range.begin - block_.k_begin, 0, keys_);
    const int64_t end = std::clamp<int64_t>(range.end - block_.k_begin, begin, keys_);
    tile.begin[row] = static_cast<int32_t>(begin);
    tile.end[row] = static_cast<int32_t>(end);
    tile.masked = tile.masked || end - begin < keys_;
    any = any || begin < end;
  }
  return any;
}

// The tile's rows of q and d_out, and their row states. False if a value is not finite.
bool BackwardBlock::load_rows(QueryTile& tile) {
  const View<const float, 4>& q = job_.inputs.q;
  const View<const float, 4>& d_out = job_.outputs.d_out;
  const int64_t b = block_.b;
  const float* const q_from = &q(b, tile.q_begin, tile.head, 0);
  const float factor = job_.score_factor;
  const bool in_place = q.stride(1) == width_k_ && d_k_ == width_k_;
  q_rows_ = in_place ? q_from : q_copy_;
  const bool q_finite = copy_rows(
      q_from, q.stride(1), tile.rows, d_k_, [=](int64_t) { return factor; }, q_scaled_, width_k_,
      in_place ? nullptr : q_copy_);
  const float* const inverse = &job_.inverse_sum(b, tile.head, tile.q_begin);
  const bool d_o_finite = copy_rows(
      &d_out(b, tile.q_begin, tile.head, 0), d_out.stride(1), tile.rows, d_v_,
      [=](int64_t row) { return inverse[row]; }, d_o_rows_, width_v_);
  delta_ = &job_.delta(b, tile.head, tile.q_begin);
  shift_ = &job_.shift(b, tile.head, tile.q_begin);
  if (job_.scores.has_options) load_options(tile);
  if (has_dense(tile)) expand_dense(tile);
  find_single_keys(tile);
  return q_finite && d_o_finite;
}

// 1 where a row sees a key and 0 elsewhere, all parts of the mask together.
void BackwardBlock::expand_dense(const QueryTile& tile) {
  for (int64_t row = 0; row < tile.rows; ++row) {
    const float* const bias = tile.hidden_by_bias ? bias_rows_ + row * bias_step_ : nullptr;
    expand_row({job_.mask, block_.b, tile.head, tile.q_begin + row, block_.k_begin, bias},
               {tile.begin[row], tile.end[row]}, kBlockKeys, dense_ + row * kBlockKeys);
  }
}

bool BackwardBlock::visible(const QueryTile& tile, int64_t row, int64_t key) const {
  if (key < tile.begin[row] || key >= tile.end[row]) return false;
  return !has_dense(tile) || dense_[row * kBlockKeys + key] != 0.0F;
}

VisibleLanes BackwardBlock::lanes_of(const QueryTile& tile, int64_t row, int64_t key) const {
  return {tile.begin + row, tile.end + row, has_dense(tile) ? dense_ + row * kBlockKeys + key : nullptr, key};
}

// 1 and 2. p and ds of the whole tile. Begins and ends of the rows' ranges never decrease from row to row, so the first
// row's begin and the last row's end bound a group of rows; vectors outside are set to 0 at no other cost.
void BackwardBlock::fill_scores(const QueryTile& tile) {
  for (int i = 0; i < panels_; ++i) {
    const KeyPanel& panel = panel_[i];
    with_count<kKeyPanelVectors>(panel.vectors, [&]<int V>() HWY_ATTR {
      for_each_row_tile<V>(tile.rows, [&]<int R>(int64_t row) HWY_ATTR {
        const int64_t begin = std::max<int64_t>(tile.begin[row] - panel.first, 0);
        const int64_t end = std::max<int64_t>(tile.end[row + R - 1] - panel.first, begin);
        const int first = static_cast<int>(std::min<int64_t>(begin / kLanes, V));
        const int last = static_cast<int>(std::min<int64_t>(divide_up<int64_t>(end, kLanes), V));
        zero_vectors(row, R, panel.first, first);
        zero_vectors(row, R, panel.first + last * kLanes, V - last);
        if (first >= last) return;
        const int64_t seen_by_all = std::min<int64_t>(panel.first + last * kLanes, keys_);
        const bool masked =
            has_dense(tile) || tile.end[row] < seen_by_all || tile.begin[row + R - 1] > panel.first + first * kLanes;
        with_count<V>(last - first, [&]<int C>() HWY_ATTR {
          if (job_.scores.has_options) return option_tile<R, C>(tile, row, i, first, masked);
          masked ? score_tile<R, C, true>(tile, row, i, first) : score_tile<R, C, false>(tile, row, i, first);
        });
      });
    });
  }
  if (tile.has_single) zero_single_keys(tile);
}

// `vectors` vectors from `key` on of p and ds are 0.
HWY_INLINE void BackwardBlock::zero_vectors(int64_t row, int64_t rows, int64_t key, int vectors) {
  for (int64_t r = row; r < row + rows; ++r) {
    for (int c = 0; c < vectors; ++c) {
      hn::StoreU(hn::Zero(kFloats), kFloats, p_ + r * kBlockKeys + key + c * kLanes);
      hn::StoreU(hn::Zero(kFloats), kFloats, ds_ + r * kBlockKeys + key + c * kLanes);
    }
  }
}

template <int R, int C, bool masked>
void BackwardBlock::score_tile(const QueryTile& tile, int64_t row, int panel, int first_vector) {
  // Local copies: after a vector store the compiler must assume that members have changed.
  const int64_t key = panel_[panel].first + first_vector * kLanes;
  const float* const k = k_lanes_ + panel * kKeyPanelWidth * d_k_ + first_vector * kLanes;
  const float* const v = v_lanes_ + panel * kKeyPanelWidth * d_v_ + first_vector * kLanes;
  const float* const shift = shift_ + row;
  const float* const delta = delta_ + row;
  float* const p_at = p_ + row * kBlockKeys + key;
  float* const ds_at = ds_ + row * kBlockKeys + key;
  const VisibleLanes visible_lanes = lanes_of(tile, row, key);
  const auto shown = [=](int r, int c, Vector value) HWY_ATTR { return masked ? visible_lanes(r, c, value) : value; };
  {
    RegisterTile<R, C> scores;
    score_chains(scores, q_scaled_ + row * width_k_, width_k_, k, kKeyPanelWidth, d_k_);
    scores.for_each([=](int r, int c, Vector score) HWY_ATTR {
      const Vector p = exp256(hn::Sub(score, hn::Set(kFloats, shift[r])));
      hn::StoreU(shown(r, c, p), kFloats, p_at + r * kBlockKeys + c * kLanes);
    });
  }
  RegisterTile<R, C> d_p;
  d_p.fill([=](int r, int) HWY_ATTR { return hn::Set(kFloats, -delta[r]); });
  d_p.accumulate(d_o_rows_ + row * width_v_, width_v_, 1, v, kKeyPanelWidth, d_v_);
  d_p.for_each([=](int r, int c, Vector value) HWY_ATTR {
    const int64_t at = r * kBlockKeys + c * kLanes;
    hn::StoreU(shown(r, c, hn::Mul(value, hn::LoadU(kFloats, p_at + at))), kFloats, ds_at + at);
  });
}

// Calls f.operator()<C>(first column) until all columns of a row of `width` floats are covered.
template <class F>
HWY_INLINE void for_each_column_group(int64_t width, F f) {
  for (int64_t column = 0; column < width;) {
    const int vectors = next_tile_vectors((width - column) / kLanes);
    with_count<kMostTileVectors>(vectors, [&]<int C>() HWY_ATTR { f.template operator()<C>(column); });
    column += vectors * kLanes;
  }
}

// 3. d_q of this block: one chain over the block's keys for each element.
void BackwardBlock::multiply_queries(const QueryTile& tile) {
  for_each_column_group(width_k_, [&]<int C>(int64_t column) HWY_ATTR {
    for_each_row_tile<C>(tile.rows, [&]<int R>(int64_t row) HWY_ATTR {
      const int64_t begin = tile.begin[row];
      const int64_t end = std::max<int64_t>(tile.end[row + R - 1], begin);
      RegisterTile<R, C> sums;
      sums.set_zero();
      sums.accumulate(ds_ + row * kBlockKeys + begin, TileStride{}, 1, k_copy_ + begin * width_k_ + column, width_k_,
                      end - begin);
      sums.store(d_q_ + row * width_k_ + column, width_k_);
    });
  });
}

// 3. sums[key] += weightsᵀ · rows: one chain over the tile's queries for each element.
void BackwardBlock::multiply_keys(const QueryTile& tile, const float* weights, const float* rows, const KeySums& sums) {
  const int64_t width = sums.width;
  for_each_column_group(width, [&]<int C>(int64_t column) HWY_ATTR {
    int64_t first = 0;
    int64_t last = 0;
    for_each_row_tile<C>(keys_, [&]<int R>(int64_t key) HWY_ATTR {
      // The rows that see one of these keys: both bounds only increase with the key.
      while (first < tile.rows && tile.end[first] <= key) ++first;
      while (last < tile.rows && tile.begin[last] < key + R) ++last;
      if (first >= last) return;
      RegisterTile<R, C> tile_sums;
      tile_sums.set_zero();
      tile_sums.accumulate(weights + first * kBlockKeys + key, UnitStride{}, kBlockKeys, rows + first * width + column,
                           width, last - first);
      tile_sums.add_to(sums.group + key * width + column, width);
    });
  });
}

// Blocks add to d_q in the order of their keys, whichever threads they run on.
void BackwardBlock::wait_for_turn(int64_t step) const {
  if (block_.before == nullptr) return;
  while (block_.before->load(std::memory_order_acquire) <= step) std::this_thread::yield();
}

// The first block writes what the others add to.
void BackwardBlock::add_query_gradient(const QueryTile& tile) const {
  const View<float, 4>& d_q = job_.gradients.d_q.view;
  const bool write = writes_d_q();
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* to = &d_q(block_.b, tile.q_begin + row, tile.head, 0);
    const float* from = d_q_ + row * width_k_;
    int64_t i = 0;
    for (; i + kLanes <= d_k_; i += kLanes) {
      const Vector before = write ? hn::Zero(kFloats) : hn::LoadU(kFloats, to + i);
      hn::StoreU(hn::Add(before, hn::LoadU(kFloats, from + i)), kFloats, to + i);
    }
    for (; i < d_k_; ++i) to[i] = (write ? 0.0F : to[i]) + from[i];
  }
}

void BackwardBlock::write_no_query_gradient(const QueryTile& tile) const {
  const View<float, 4>& d_q = job_.gradients.d_q.view;
  for (int64_t row = 0; row < tile.rows; ++row) {
    std::fill_n(&d_q(block_.b, tile.q_begin + row, tile.head, 0), d_k_, 0.0F);
  }
}

void BackwardBlock::write_key_gradients() const {
  const auto write = [this](const KeySums& sums, const InputGradient<4>& gradient) HWY_ATTR {
    const int64_t d = gradient.view.size(3);
    for (int64_t key = 0; key < keys_; ++key) {
      const float* const from = sums.group + key * sums.width;
      float* const to = &gradient.view(block_.b, block_.k_begin + key, block_.kv_head, 0);
      if (gradient.add) {
        for (int64_t i = 0; i < d; ++i) to[i] += from[i];
      } else {
        for (int64_t i = 0; i < d; ++i) to[i] = from[i] + 0.0F;  // -0 becomes 0, as in forward's lanes_to_rows
      }
    }
  };
  write(d_k_sums_, job_.gradients.d_k);
  write(d_v_sums_, job_.gradients.d_v);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

// Scratch of a whole block of keys.
template <>
size_t backward_scratch<kTargetIsa>(int64_t d_k, int64_t d_v) {
  BackwardJob job;
  job.inputs.k = {nullptr, {1, 0, 1, d_k}};
  job.inputs.v = {nullptr, {1, 0, 1, d_v}};
  KeyBlock block;
  block.k_end = kBlockKeys;
  Arena arena = Arena::dry_run();
  HWY_NAMESPACE::BackwardBlock(job, block, arena);
  return arena.peak_bytes();
}

template <>
void backward_block<kTargetIsa>(const BackwardJob& job, const KeyBlock& block, Arena& scratch) {
  HWY_NAMESPACE::BackwardBlock(job, block, scratch).run();
}

}  // namespace heed
