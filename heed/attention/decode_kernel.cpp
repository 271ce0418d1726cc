// Decode for one item of the batch and one key/value head: a few rows (queries times heads of the group) against its
// pages. Keys are in lanes for the scores and widths for the products, so k and v are read once, in place.
//
//   for each piece (one page) and up to 4 rows:
//     1. scores:   scores[row][key] = k · q, weights = 256^scores, 0 where hidden
//     2. products: o[row][d] += weights · v, and the sum of the weights, key by key
//     3. shift: 0 if that sum is in range, else 1 and 2 again with the piece's true maximum
//     4. merge into the states of the rows' groups, and these into their totals (decode_groups.h)
//   at the end out = o / sum.
#include "heed/simd/target.h"

#include <algorithm>
#include <limits>

#include "heed/attention/decode_groups.h"
#include "heed/attention/decode_options.h"
#include "heed/attention/decode_piece.h"
#include "heed/attention/decode_rows.h"
#include "heed/core/memory.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

DecodeRows::DecodeRows(const DecodeJob& job, const DecodeItem& item, Arena& scratch)
    : job_(job), item_(item), layout_(job.layout), query_heads_(job.group()), rows_(job.row_count()) {
  const auto take = [&scratch](int64_t floats) { return scratch.take<float>(floats); };
  q_ = take(rows_ * round_up<int64_t>(layout_.d_k, kUnit));
  o_ = take(rows_ * layout_.v_step);
  shift_ = take(rows_);
  sum_ = take(rows_);
  scores_ = take(kStreamRows * kPageKeys);
  weights_ = take(kStreamRows * kPageKeys);
  piece_ = take(kStreamRows * piece_result_floats(layout_));
  total_o_ = take(rows_ * layout_.v_step);
  total_shift_ = take(rows_);
  total_sum_ = take(rows_);
  rest_o_ = take(rows_ * layout_.v_step);
  rest_sum_ = take(rows_);
  shown_ = job.scores.bias.data() != nullptr ? take(kStreamRows * kPageKeys) : nullptr;
}

void DecodeRows::pack_queries() {
  const int64_t step = round_up<int64_t>(layout_.d_k, kUnit);
  const Vector factor = hn::Set(kFloats, job_.score_factor);
  for (int64_t row = 0; row < rows_; ++row) {
    const float* from = &job_.q(item_.n, query_of(row), head_of(row), 0);
    float* to = q_ + row * step;
    int64_t d = 0;
    for (; d + kLanes <= layout_.d_k; d += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(kFloats, from + d), factor), kFloats, to + d);
    }
    for (; d < layout_.d_k; ++d) to[d] = job_.score_factor * from[d];
  }
}

void DecodeRows::clear_states(int64_t first, int64_t count) {
  std::fill_n(shift_ + first, count, -std::numeric_limits<float>::infinity());
  std::fill_n(sum_ + first, count, 0.0F);
  std::fill_n(o_ + first * layout_.v_step, count * layout_.v_step, 0.0F);
}

void DecodeRows::run(const std::byte* next) {
  pack_queries();
  clear_states(0, rows_);
  for (int64_t piece = item_.first_piece; piece < item_.end_piece; ++piece) {
    const std::byte* ahead = piece + 1 < item_.end_piece ? layout_.k_page(item_.kv_head, item_.pages[piece + 1]) : next;
    for (int64_t row = 0; row < rows_; row += kStreamRows) {
      const RowGroup group = rows_of_piece(row, std::min<int64_t>(kStreamRows, rows_ - row), piece);
      if (group.begin >= group.end) continue;
      compute_piece(group, row == 0, row == 0 ? ahead : nullptr, RowMode::fast);
      for (int i = 0; i < group.count; ++i) merge(row + i, piece_result(i));
    }
    close_group(piece, 0, rows_);
  }
  finish();
}

void DecodeRows::pieces(float* results) {
  pack_queries();
  const int64_t size = piece_result_floats(layout_);
  for (int64_t piece = item_.first_piece; piece < item_.end_piece; ++piece) {
    const std::byte* ahead =
        piece + 1 < item_.end_piece ? layout_.k_page(item_.kv_head, item_.pages[piece + 1]) : nullptr;
    for (int64_t row = 0; row < rows_; row += kStreamRows) {
      const RowGroup group = rows_of_piece(row, std::min<int64_t>(kStreamRows, rows_ - row), piece);
      float* to = results + ((piece - item_.first_piece) * rows_ + row) * size;
      if (group.begin >= group.end) {
        for (int i = 0; i < group.count; ++i) {
          to[i * size] = -std::numeric_limits<float>::infinity();
          to[i * size + 1] = 0.0F;
        }
        continue;
      }
      compute_piece(group, row == 0, row == 0 ? ahead : nullptr, RowMode::fast);
      std::copy_n(piece_, group.count * size, to);
    }
  }
}

void DecodeRows::merge_pieces(const float* results) {
  pack_queries();
  clear_states(0, rows_);
  const int64_t size = piece_result_floats(layout_);
  for (int64_t piece = item_.first_piece; piece < item_.end_piece; ++piece) {
    for (int64_t row = 0; row < rows_; ++row, results += size) merge(row, results);
    close_group(piece, 0, rows_);
  }
  finish();
}

// The rows [first, first + count) in a piece: the keys that each sees, and the keys that any sees.
RowGroup DecodeRows::rows_of_piece(int64_t first, int64_t count, int64_t piece) const {
  RowGroup group;
  group.first = first;
  group.count = static_cast<int>(count);
  group.piece = piece;
  group.begin = kPageKeys;
  group.all_to = kPageKeys;
  for (int i = 0; i < group.count; ++i) {
    const KeyRange keys = item_.rule.at(query_of(first + i));
    group.from[i] = std::clamp<int64_t>(keys.begin - piece * kPageKeys, 0, kPageKeys);
    group.to[i] = std::clamp<int64_t>(keys.end - piece * kPageKeys, 0, kPageKeys);
    group.all_from = std::max(group.all_from, group.from[i]);
    group.all_to = std::min(group.all_to, group.to[i]);
    if (group.from[i] >= group.to[i]) continue;
    group.begin = std::min(group.begin, group.from[i]);
    group.end = std::max(group.end, group.to[i]);
  }
  return group;
}

void DecodeRows::compute_piece(const RowGroup& group, bool first_group, const std::byte* next, RowMode mode) {
  if (layout_.storage == KvStorage::f32) return compute_stored<float>(group, first_group, next, mode);
  compute_stored<uint16_t>(group, first_group, next, mode);
}

// Passes 1 to 3 (decode_piece.h). Tiles that prefetch blocks (stream_tile.h) prefetch v while k is read, and the next k
// while v is read.
template <class Element>
void DecodeRows::compute_stored(const RowGroup& group, bool first_group, const std::byte* next, RowMode mode) {
  const int64_t page = item_.pages[group.piece];
  const auto* k = reinterpret_cast<const Element*>(layout_.k_page(item_.kv_head, page));
  const auto* v = reinterpret_cast<const Element*>(layout_.v_page(item_.kv_head, page));
  LinesAhead v_lines(first_group ? layout_.v_page(item_.kv_head, page) : nullptr,
                     layout_.page_bytes() - layout_.k_bytes());
  LinesAhead next_lines(next, layout_.k_bytes());
  const int64_t first = group.begin / kLanes * kLanes;
  const bool weighs = !job_.scores.has_options && mode == RowMode::fast;
  with_count<kStreamRows>(group.count, [&]<int R>() HWY_ATTR {
    for (int r = 0; r < R; ++r) {
      piece_result(r)[0] = group.from[r] < group.to[r] ? 0.0F : -std::numeric_limits<float>::infinity();
    }
    weighed_ = weighs ? first : kPageKeys;
    score<R>(group, k, v_lines);
    if (!weighs) return compute_with_options<R>(group, v, next_lines, mode);
    multiply<R>(group, v, next_lines);
    if (sums_in_range<R>(group)) return;
    use_true_maximum<R>(group);
    weighed_ = first;
    multiply<R>(group, v, next_lines);
  });
}

// 4. Merges the piece into its group. With equal shifts, the usual case, this is an addition.
void DecodeRows::merge(int64_t row, const float* piece) {
  const float m = shift_[row];
  const float m_piece = piece[0];
  if (m_piece == -std::numeric_limits<float>::infinity() && piece[1] == 0.0F) return;  // sees no key of the piece
  const auto merge_all = [&](auto both) HWY_ATTR {
    float* const o = o_ + row * layout_.v_step;
    const float* const o_piece = piece + kPieceResultHead;
    sum_[row] = hn::GetLane(both(hn::Set(kFloats, sum_[row]), hn::Set(kFloats, piece[1])));
    for (int64_t d = 0; d < layout_.d_v; d += kLanes) {
      hn::StoreU(both(hn::LoadU(kFloats, o + d), hn::LoadU(kFloats, o_piece + d)), kFloats, o + d);
    }
  };
  if (m == m_piece) return merge_all([](Vector old, Vector added) HWY_ATTR { return hn::Add(old, added); });
  const Rescale scale = rescale(hn::Set(kFloats, m), hn::Set(kFloats, m_piece));
  shift_[row] = hn::GetLane(scale.shift);
  merge_all([&](Vector old, Vector added) HWY_ATTR { return merged(scale, old, added); });
}

float DecodeRows::factor_of(int64_t row) const {
  return hn::GetLane(output_factor(job_.scores, hn::Set(kFloats, sum_[row])));
}

// True if the sum and the output are finite: 0 · x is NaN only for NaN and ±∞.
bool DecodeRows::is_finite(int64_t row) const {
  const float* o = o_ + row * layout_.v_step;
  const float factor = factor_of(row);
  float probe = 0.0F * sum_[row];
  for (int64_t d = 0; d < layout_.d_v; ++d) probe += 0.0F * (factor * o[d]);
  return probe == 0.0F;
}

// Recomputes rows that are not finite: one at a time, without the keys that only other rows see; then with true maxima.
void DecodeRows::finish() {
  finish_groups(0, rows_);
  for (int64_t row = 0; row < rows_; ++row) {
    RowMode mode = RowMode::fast;
    finish_state(row, mode);
    for (const RowMode next : {RowMode::careful, RowMode::true_maximum}) {
      if (mode == last_mode(job_.scores) || is_finite(row)) break;
      mode = next;
      compute_again(row, mode);
    }
    write(row, mode);
  }
}

void DecodeRows::compute_again(int64_t row, RowMode mode) {
  clear_states(row, 1);
  for (int64_t piece = item_.first_piece; piece < item_.end_piece; ++piece) {
    const RowGroup group = rows_of_piece(row, 1, piece);
    if (group.begin < group.end) {
      compute_piece(group, false, nullptr, mode);
      merge(row, piece_result(0));
    }
    close_group(piece, row, 1);
  }
  finish_groups(row, 1);
  finish_state(row, mode);
}

// out = o / sum; 0 for a row that saw no key.
void DecodeRows::write(int64_t row, RowMode mode) const {
  const int64_t t = query_of(row);
  const int64_t head = head_of(row);
  const ScoreJob& scores = job_.scores;
  const float sum = sum_[row];
  const float factor = factor_of(row);
  const bool headroom = mode == RowMode::true_maximum;
  const float* o = o_ + row * layout_.v_step;
  float* out = &job_.out(item_.n, t, head, 0);
  for (int64_t d = 0; d < layout_.d_v; ++d) {
    out[d] = (headroom ? mean_with_headroom(o[d], sum, scores.kept_scale) : factor * o[d]) + 0.0F;
  }
  if (job_.rows.sum.data() == nullptr) return;
  job_.rows.shift(item_.n, head, t) = shift_[row];
  job_.rows.sum(item_.n, head, t) = headroom ? sum / kHeadroom : sum;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
size_t decode_scratch<kTargetIsa>(const DecodeJob& job) {
  Arena arena = Arena::dry_run();
  HWY_NAMESPACE::DecodeRows(job, DecodeItem(), arena);
  return arena.peak_bytes();
}

template <>
void decode_item<kTargetIsa>(const DecodeJob& job, const DecodeItem& item, const std::byte* next, Arena& scratch) {
  HWY_NAMESPACE::DecodeRows(job, item, scratch).run(next);
}

template <>
void decode_pieces<kTargetIsa>(const DecodeJob& job, const DecodeItem& item, float* results, Arena& scratch) {
  HWY_NAMESPACE::DecodeRows(job, item, scratch).pieces(results);
}

template <>
void decode_merge<kTargetIsa>(const DecodeJob& job, const DecodeItem& item, const float* results, Arena& scratch) {
  HWY_NAMESPACE::DecodeRows(job, item, scratch).merge_pieces(results);
}

}  // namespace heed
