// Fused attention, forward, for one block of queries of one head. Queries are in lanes, so nothing is ever reduced
// across lanes and any Dk and Dv are equally fast.
//
//   for each piece of 128 keys, for each panel of queries:
//     1. scores:   weights[key][query] = 256^(k · q), with q scaled by scale · log256 e when it was packed; their sum
//     2. shift: 0 when that sum is in range, else the piece again with its true maximum
//     3. products: o[d][query] += weights · v
//   after each group of pieces (forward_groups.h): o and sum into the total
//   at the end out = o / sum, transposed back to rows.
#include <algorithm>
#include <limits>

#include "heed/attention/forward_block.h"
#include "heed/attention/forward_groups.h"
#include "heed/attention/forward_options.h"
#include "heed/attention/forward_paged.h"
#include "heed/attention/forward_rare.h"
#include "heed/core/memory.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

ForwardBlock::ForwardBlock(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, Arena& scratch)
    : job_(job),
      block_(block),
      next_(job.paged == nullptr ? next : nullptr),
      head_(block.head),
      kv_head_(block.head / (job.inputs.q.size(2) / job.inputs.k.size(2))),
      d_k_(job.inputs.q.size(3)),
      d_v_(job.inputs.v.size(3)) {
  const auto take = [&scratch](int64_t floats) { return scratch.take<float>(floats); };
  weights_ = take(kPieceKeys * kWidth);
  piece_sum_ = take(kWidth);
  piece_shift_ = take(kWidth);
  piece_o_ = take(d_v_ * kWidth);
  k_copy_ = take(kPieceKeys * round_up<int64_t>(d_k_, kLanes));
  v_copy_ = take(kPieceKeys * round_up<int64_t>(d_v_, kLanes));
  mask_.take_scratch(scratch);
  for (int64_t q = block.q_begin; q < block.q_end; ++panels_) {
    QueryPanel& panel = panel_[panels_];
    panel.q_begin = q;
    panel.vectors = next_tile_vectors(divide_up<int64_t>(block.q_end - q, kLanes));
    panel.rows = std::min<int64_t>(panel.vectors * kLanes, block.q_end - q);
    panel.keys.set(block, q, panel.rows);
    panel.q = take(d_k_ * kWidth);
    panel.group = {take(d_v_ * kWidth), take(kWidth), take(kWidth)};
    panel.suspect = take(kWidth);
    q += panel.rows;
  }
  if (job.scores.dropout != nullptr) {
    for (int i = 0; i < panels_; ++i) panel_[i].dropout = scratch.take<uint32_t>(2 * kWidth);
  }
  for (int i = 0; i < panels_ && has_groups(); ++i) {
    panel_[i].total = {take(d_v_ * kWidth), take(kWidth), take(kWidth)};
    panel_[i].rest = {take(d_v_ * kWidth), nullptr, take(kWidth)};
  }
  // Rows of k or v that are not contiguous map to few cache sets, so a piece is copied once for all panels. A single
  // panel would not recoup the copy.
  copy_rows_ = panels_ > 1;
}

// A single panel reads k and v only once, in place, and is not compute-bound: it prefetches the next piece as fast as
// it reads this one (4 queries on 32768 keys: 1.5 times as fast as without).
void ForwardBlock::prefetch_piece(int64_t begin, int64_t keys) {
  const int64_t first = block_.segment.k_begin + begin;
  prefetcher_.clear();
  prefetcher_.add(job_.inputs.k, block_.b, kv_head_, first, keys);
  prefetcher_.add(job_.inputs.v, block_.b, kv_head_, first, keys);
}

void ForwardBlock::prefetch_block(const QueryBlock& next) {
  prefetcher_.clear();
  const int64_t kv_head = next.head / (job_.inputs.q.size(2) / job_.inputs.k.size(2));
  const KeyRange keys = next.rule.at(next.q_begin);
  const int64_t count = std::min(kPieceKeys, keys.end - keys.begin);
  prefetcher_.add(job_.inputs.q, next.b, next.head, next.q_begin, next.q_end - next.q_begin);
  if (kv_head != kv_head_ || next.b != block_.b) {
    prefetcher_.add(job_.inputs.k, next.b, kv_head, keys.begin, count);
    prefetcher_.add(job_.inputs.v, next.b, kv_head, keys.begin, count);
  }
  prefetcher_.add(job_.out, next.b, next.head, next.q_begin, next.q_end - next.q_begin);
}

void ForwardBlock::run() {
  pack_queries();
  for (const RowMode mode : {RowMode::fast, RowMode::careful, RowMode::true_maximum}) {
    visit_pieces(mode);
    bool finite = true;
    for (int i = 0; i < panels_; ++i) {
      finish_groups(panel_[i]);
      finish_states(panel_[i], mode);
      write(panel_[i], mode);
      finite = !find_suspects(panel_[i]) && finite;
    }
    if (finite || mode == last_mode(job_.scores)) return;
  }
}

void ForwardBlock::pack_queries() {
  const View<const float, 4>& q = job_.inputs.q;
  for (int i = 0; i < panels_; ++i) {
    const QueryPanel& panel = panel_[i];
    for (int c = 0; c < panel.vectors; ++c) {
      const int64_t first = int64_t{c} * kLanes;
      rows_to_lanes(&q(block_.b, panel.q_begin + first, head_, 0), q.stride(1),
                    std::min<int64_t>(panel.rows - first, kLanes), d_k_, job_.score_factor, panel.q + first, kWidth);
    }
    if (panel.dropout != nullptr) {
      set_dropout_words(*job_.scores.dropout, block_.b, head_, job_.scores.query_number(block_.b, panel.q_begin),
                        kWidth, panel.dropout);
    }
  }
}

void ForwardBlock::visit_pieces(RowMode mode) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = 0;
  for (int i = 0; i < panels_; ++i) {
    QueryPanel& panel = panel_[i];
    panel.has_total = false;
    start_group(panel, mode);
    begin = std::min(begin, panel.keys.least_begin[0]);
    end = std::max(end, panel.keys.most_end[panel.vectors - 1]);
  }
  if (next_ != nullptr) prefetch_block(*next_);
  for (int64_t first = begin / kPieceKeys * kPieceKeys; first < end; first += kPieceKeys) {
    const int64_t after = end - first - kPieceKeys;
    if (prefetches_next_piece() && after > 0) prefetch_piece(first + kPieceKeys, std::min(kPieceKeys, after));
    const KeyPiece piece = load_piece(first, std::min<int64_t>(kPieceKeys, end - first));
    for (int i = 0; i < panels_; ++i) visit(panel_[i], piece, mode);
    const bool group_ends = (first / kPieceKeys + 1) % kGroupPieces == 0;
    for (int i = 0; i < panels_ && group_ends && after > 0; ++i) close_group(panel_[i], mode);
  }
}

KeyPiece ForwardBlock::load_piece(int64_t begin, int64_t keys) {
  if (job_.paged != nullptr) return load_page(begin, keys);
  const View<const float, 4>& k = job_.inputs.k;
  const View<const float, 4>& v = job_.inputs.v;
  const int64_t first = block_.segment.k_begin + begin;
  const auto rows = [&](const View<const float, 4>& from, int64_t width, float* copy, int64_t& step) {
    const float* data = &from(block_.b, first, kv_head_, 0);
    step = from.stride(1);
    if (!copy_rows_ || step == width) return data;
    for (int64_t key = 0; key < keys; ++key) std::copy_n(data + key * step, width, copy + key * width);
    step = width;
    return static_cast<const float*>(copy);
  };
  KeyPiece piece;
  piece.begin = begin;
  piece.keys = keys;
  piece.k = rows(k, d_k_, k_copy_, piece.k_step);
  piece.v = rows(v, d_v_, v_copy_, piece.v_step);
  return piece;
}

void ForwardBlock::visit(QueryPanel& panel, const KeyPiece& piece, RowMode mode) {
  prepare_mask(panel, piece);
  if (mask_.run_count() == 0) return;
  std::fill_n(piece_sum_, kWidth, 0.0F);
  bool certain = false;
  if (job_.scores.has_options) {
    store_scores(panel, piece);
    if (job_.scores.wide_range && mode != RowMode::true_maximum) certain = find_shifts(panel);
    weigh_stored(certain);
  } else {
    exponentiate(panel, piece);
  }
  if (!certain && !job_.scores.sigmoid) {
    const bool usual = mode != RowMode::true_maximum && sums_in_range(panel);
    if (!usual) panel.zero_shifts = false;
    if (!panel.zero_shifts) use_true_maximum(panel, piece, mode);
  }
  if (panel.dropout != nullptr) drop_weights(panel, piece);
  multiply(panel, piece, mode);
  panel.started = true;
}

// 1. Weights of the piece and their sums, with scores and 256^ fused.
void ForwardBlock::exponentiate(const QueryPanel& panel, const KeyPiece& piece) {
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun& run = mask_.run(i);
    with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR {
      if (run.masked == 0) return exponentiate_run<C, 0>(panel, piece, run);
      if (run.masked == 1) return exponentiate_run<C, 1>(panel, piece, run);
      exponentiate_run<C, C>(panel, piece, run);
    });
  }
}

// 1. weights = 256^score, 0 where hidden (in the first `masked` vectors); the sum over keys, in their order.
template <int C, int masked>
void ForwardBlock::exponentiate_run(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run) {
  // Local copies: after a vector store the compiler must assume that members have changed.
  const int first = run.first;
  float* const sums = piece_sum_ + first * kLanes;
  float* const weights = weights_ + first * kLanes;
  const PanelMask& mask = mask_;
  score_tiles<C>(panel, piece, run, [=, &mask]<int R>(const RegisterTile<R, C>& tile, int64_t key) HWY_ATTR {
    float* const to = weights + key * kWidth;
    Vector sum[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = hn::LoadU(kFloats, sums + c * kLanes);
    tile.for_each([&](int r, int c, Vector score) HWY_ATTR {
      Vector weight = exp256(score);
      if (c < masked) weight = hn::IfThenElseZero(mask.visible(key + r, first + c), weight);
      sum[c] = hn::Add(sum[c], weight);
      hn::StoreU(weight, kFloats, to + r * kWidth + c * kLanes);
    });
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) hn::StoreU(sum[c], kFloats, sums + c * kLanes);
  });
}

// 2. True if shift 0 is valid for every query that sees a key of this piece.
bool ForwardBlock::sums_in_range(const QueryPanel& panel) const {
  bool all = true;
  for (int c = 0; c < panel.vectors; ++c) {
    const auto bad = hn::AndNot(in_range(hn::LoadU(kFloats, piece_sum_ + c * kLanes)), mask_.any_visible(c));
    all = all && hn::AllFalse(kFloats, bad);
  }
  return all;
}

// 3. o += weights · v, one chain over the piece's keys, then added to (or merged with) the panel's state.
void ForwardBlock::multiply(QueryPanel& panel, const KeyPiece& piece, RowMode mode) {
  if (panel.zero_shifts && mode == RowMode::fast && mask_.runs_reach_last(panel.vectors)) {
    with_count<kPanelVectors>(panel.vectors, [&]<int C>() HWY_ATTR { multiply_all<C>(panel, piece); });
    return merge_zero_shifts(panel, false);
  }
  if (!panel.started) std::fill_n(panel.group.o, d_v_ * kWidth, 0.0F);
  const bool direct = panel.zero_shifts && !panel.started;
  float* o = direct ? panel.group.o : piece_o_;
  if (!direct) std::fill_n(o, d_v_ * kWidth, 0.0F);
  for (int i = 0; i < mask_.run_count(); ++i) {
    const KeyRun& run = mask_.run(i);
    if (mode == RowMode::fast) {
      with_count<kPanelVectors>(run.vectors, [&]<int C>() HWY_ATTR { multiply_run<C>(piece, run, o); });
    } else {
      multiply_run_careful(piece, run, o);
    }
  }
  panel.zero_shifts ? merge_zero_shifts(panel, !direct) : merge_scaled(panel);
}

// The usual case, in registers from the first run to the last: every run reaches the last vector, as without a mask and
// at a causal diagonal.
template <int C>
void ForwardBlock::multiply_all(const QueryPanel& panel, const KeyPiece& piece) {
  for_each_row_tile<C>(d_v_, [&]<int R>(int64_t d) HWY_ATTR {
    prefetcher_.step(prefetches_next_piece() ? piece.keys : 16);
    RegisterTile<R, C> tile;
    tile.set_zero();
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      with_count<C>(run.vectors, [&]<int vectors>() HWY_ATTR {
        tile.template accumulate<C - vectors>(piece.v + run.begin * piece.v_step + d, UnitStride{}, piece.v_step,
                                              weights_ + run.begin * kWidth, kWidth, run.end - run.begin);
      });
    }
    float* o = panel.group.o + d * kWidth;
    panel.started ? tile.add_to(o, kWidth) : tile.store(o, kWidth);
  });
}

// Continues the chains in `o` with the keys of one run.
template <int C>
void ForwardBlock::multiply_run(const KeyPiece& piece, const KeyRun& run, float* o) {
  const float* weights = weights_ + run.begin * kWidth + run.first * kLanes;
  for_each_row_tile<C>(d_v_, [&]<int R>(int64_t d) HWY_ATTR {
    float* at = o + d * kWidth + run.first * kLanes;
    RegisterTile<R, C> tile;
    tile.load(at, kWidth);
    tile.accumulate(piece.v + run.begin * piece.v_step + d, UnitStride{}, piece.v_step, weights, kWidth,
                    run.end - run.begin);
    tile.store(at, kWidth);
  });
}

// Every shift is 0: sums are added, and so is o if it was computed separately.
void ForwardBlock::merge_zero_shifts(QueryPanel& panel, bool with_o) {
  for (int c = 0; c < panel.vectors; ++c) {
    float* shift = panel.group.shift + c * kLanes;
    float* sum = panel.group.sum + c * kLanes;
    hn::StoreU(hn::IfThenElse(mask_.any_visible(c), hn::Zero(kFloats), hn::LoadU(kFloats, shift)), kFloats, shift);
    hn::StoreU(hn::Add(hn::LoadU(kFloats, sum), hn::LoadU(kFloats, piece_sum_ + c * kLanes)), kFloats, sum);
  }
  if (!with_o) return;
  for (int64_t d = 0; d < d_v_; ++d) {
    for (int c = 0; c < panel.vectors; ++c) {
      float* o = panel.group.o + d * kWidth + c * kLanes;
      const Vector piece_o = hn::LoadU(kFloats, piece_o_ + d * kWidth + c * kLanes);
      hn::StoreU(hn::Add(hn::LoadU(kFloats, o), piece_o), kFloats, o);
    }
  }
}

// out = o / sum; 0 for a query that saw no key. After the first time, only for the queries that were not finite.
void ForwardBlock::write(const QueryPanel& panel, RowMode mode) {
  const SoftmaxState& state = panel.group;
  if (!panel.started) std::fill_n(state.o, d_v_ * kWidth, 0.0F);
  const ScoreJob& scores = job_.scores;
  HWY_ALIGN float factor[kWidth];
  for (int64_t at = 0; at < panel.vectors * kLanes; at += kLanes) {
    hn::StoreU(output_factor(scores, hn::LoadU(kFloats, state.sum + at)), kFloats, factor + at);
  }
  const View<float, 4>& out = job_.out;
  if (mode == RowMode::fast) {
    for (int64_t first = 0; first < panel.rows; first += kLanes) {
      lanes_to_rows(state.o + first, kWidth, factor + first, std::min<int64_t>(panel.rows - first, kLanes), d_v_,
                    &out(block_.b, panel.q_begin + first, head_, 0), out.stride(1));
    }
    return write_states(panel, 0, panel.rows, 1.0F);
  }
  const bool headroom = mode == RowMode::true_maximum;
  for (int64_t lane = 0; lane < panel.rows; ++lane) {
    if (panel.suspect[lane] == 0.0F) continue;
    float* row = &out(block_.b, panel.q_begin + lane, head_, 0);
    for (int64_t d = 0; d < d_v_; ++d) {
      const float o = state.o[d * kWidth + lane];
      row[d] = (headroom ? mean_with_headroom(o, state.sum[lane], scores.kept_scale) : factor[lane] * o) + 0.0F;
    }
    write_states(panel, lane, 1, headroom ? 1.0F / kHeadroom : 1.0F);
  }
}

// The row states of `count` queries of the panel, from lane `first` on.
void ForwardBlock::write_states(const QueryPanel& panel, int64_t first, int64_t count, float sum_scale) {
  const auto& [shift, sum] = job_.rows;
  if (sum.data() == nullptr) return;
  float* shift_to = &shift(block_.b, head_, panel.q_begin + first);
  float* sum_to = &sum(block_.b, head_, panel.q_begin + first);
  for (int64_t i = 0; i < count; ++i) {
    shift_to[i * shift.stride(2)] = panel.group.shift[first + i];
    sum_to[i * sum.stride(2)] = sum_scale * panel.group.sum[first + i];
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

// Scratch of the largest block: all panels, more than one group of pieces, dropout.
template <>
size_t forward_scratch<kTargetIsa>(int64_t d_k, int64_t d_v) {
  const Dropout dropout;
  ForwardJob job;
  job.inputs.q = {nullptr, {1, 0, 1, d_k}};
  job.inputs.k = {nullptr, {1, 0, 1, d_k}};
  job.inputs.v = {nullptr, {1, 0, 1, d_v}};
  job.scores.dropout = &dropout;
  QueryBlock block;
  block.q_end = kMostBlockQueries;
  block.segment.k_end = kGroupPieces * kPieceKeys + 1;
  Arena arena = Arena::dry_run();
  HWY_NAMESPACE::ForwardBlock(job, block, nullptr, arena);
  return arena.peak_bytes();
}

template <>
void forward_block<kTargetIsa>(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, Arena& scratch) {
  HWY_NAMESPACE::ForwardBlock(job, block, next, scratch).run();
}

}  // namespace heed
