// The scores and weights of one panel of queries, one piece of keys at a time: the basis of all insight kernels. Kernel
// sources only.
#pragma once

#include <algorithm>

#include "heed/attention/insight_kernel.h"
#include "heed/attention/insight_weights.h"
#include "heed/attention/score_chain.h"
#include "heed/attention/score_passes.h"
#include "heed/attention/tile_mask.h"
#include "heed/core/memory.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

static_assert(kMostTileVectors * kLanes <= kScoreMargin, "a panel ends within the lists of distances");

// Queries are in lanes, as in forward, and scores have the same bits.
class InsightPanel {
 public:
  static constexpr int kVectors = kMostTileVectors;
  static constexpr int64_t kWidth = int64_t{kVectors} * kLanes;  // queries, and the row stride of the buffers

  InsightPanel(const InsightJob& job, const QueryBlock& block, Arena& scratch)
      : job_(job),
        block_(block),
        d_k_(job.inputs.q.size(3)),
        q_(scratch.take<float>(d_k_ * kWidth)),
        scores_(scratch.take<float>(kPieceKeys * kWidth)),
        dropout_(scratch.take<uint32_t>(2 * kWidth)) {
    weights_.take_scratch(scratch);
    mask_.take_scratch(scratch);
  }

  // Selects the queries from q on, as many as a panel holds. Reads no data yet.
  void set(int64_t q) {
    q_begin_ = q;
    vectors_ = next_tile_vectors(divide_up<int64_t>(block_.q_end - q, kLanes));
    rows_ = std::min<int64_t>(int64_t{vectors_} * kLanes, block_.q_end - q);
    ranges_.set(block_, q, rows_);
    packed_ = false;
  }

  int64_t q_begin() const { return q_begin_; }
  int64_t rows() const { return rows_; }
  int vectors() const { return vectors_; }

  // The keys that some query of the panel may see, counted from the segment's first key.
  KeyRange keys() const { return {ranges_.least_begin[0], ranges_.most_end[vectors_ - 1]}; }

  // Computes the scores of keys [begin, begin + keys) of the segment, at most kPieceKeys; false if none is visible.
  bool visit(int64_t begin, int64_t keys) {
    prepare_mask(begin, keys, nullptr);
    if (mask_.run_count() == 0) return false;
    pack();
    first_key_ = block_.segment.k_begin + begin;
    const View<const float, 4>& k = job_.inputs.k;
    const int64_t kv_head = block_.head / (job_.inputs.q.size(2) / k.size(2));
    const float* rows = &k(block_.b, first_key_, kv_head, 0);
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      with_count<kVectors>(run.vectors, [&]<int C>() HWY_ATTR { score_run<C>(rows, k.stride(1), run); });
    }
    if (job_.scores.has_options) apply_score_options(begin, keys);
    return true;
  }

  // Calls visit(key, visible, at) for each key of the piece that vector c may see, in order: the lanes that see it, and
  // a pointer to their kLanes scores in base 256.
  template <class Visit>
  HWY_INLINE void for_each_key(int c, Visit visit) const {
    // Padding lanes see nothing, so that the contents of hidden keys cannot leak through them.
    const auto used = hn::FirstN(kFloats, static_cast<size_t>(std::min<int64_t>(rows_ - c * kLanes, kLanes)));
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      if (c < run.first || c >= run.first + run.vectors) continue;
      for (int64_t key = run.begin; key < run.end; ++key) {
        visit(key, hn::And(used, mask_.visible(key, c)), scores_ + key * kWidth + c * kLanes);
      }
    }
  }

  // [kPieceKeys][kWidth]; only the entries that for_each_key visits are set.
  float* scores() const { return scores_; }

  // Packs the queries and their row states into lanes, once after each set().
  void pack() {
    if (packed_) return;
    const View<const float, 4>& q = job_.inputs.q;
    for (int64_t first = 0; first < vectors_ * kLanes; first += kLanes) {
      rows_to_lanes(&q(block_.b, q_begin_ + first, block_.head, 0), q.stride(1),
                    std::min<int64_t>(rows_ - first, kLanes), d_k_, job_.query_factor, q_ + first, kWidth);
    }
    packed_ = true;
    const Dropout* dropout = job_.scores.dropout;
    if (dropout != nullptr) {
      dropout_threshold_ = dropout_threshold(*dropout);
      set_dropout_words(*dropout, block_.b, block_.head, q_begin_, kWidth, dropout_);
    }
    weights_.load(job_.rows, block_, q_begin_, rows_);
  }

  // The weights of the scores of vector c.
  HWY_INLINE Weight weight(Vector score, int c) const {
    return job_.scores.has_options ? weights_.weight<true>(job_.scores, score, c)
                                   : weights_.weight<false>(job_.scores, score, c);
  }

  // Like for_each_key, with visit(key, visible, weight, at).
  template <class Visit>
  HWY_INLINE void for_each_weight(int c, Visit visit) const {
    const auto for_each = [&]<bool options>() HWY_ATTR {
      for_each_key(c, [&](int64_t key, auto visible, float* at) HWY_ATTR {
        visit(key, visible, weights_.weight<options>(job_.scores, hn::LoadU(kFloats, at), c), at);
      });
    };
    job_.scores.has_options ? for_each.template operator()<true>() : for_each.template operator()<false>();
  }

  // The dropout factor of the weights of vector c for a key of the piece: 0 or 1 / (1 - p).
  HWY_INLINE Vector dropout_factor(int64_t key, int c) const {
    const DropoutVector first = hn::LoadU(kDropoutWords, dropout_ + c * kLanes);
    const DropoutVector second = hn::LoadU(kDropoutWords, dropout_ + kWidth + c * kLanes);
    const uint32_t key_step = static_cast<uint32_t>(first_key_ + key) * kDropoutElementStep;
    return hn::Mul(kept(first, second, hn::Set(kDropoutWords, key_step), dropout_threshold_),
                   hn::Set(kFloats, job_.scores.kept_scale));
  }

 private:
  // `bias`, if not null, hides keys by -∞, as in forward.
  void prepare_mask(int64_t begin, int64_t keys, const float* bias) {
    mask_.prepare(
        ranges_, vectors_, begin, keys,
        {job_.mask, block_.b, block_.head, q_begin_, rows_, block_.segment.k_begin, bias, job_.scores.bias.stride(2)});
  }

  // The option passes of forward, with the same bits; if the bias hides keys by -∞, the mask is updated.
  void apply_score_options(int64_t begin, int64_t keys) {
    bool hides = false;
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      const int64_t lane = int64_t{run.first} * kLanes;
      const ScorePlace place{block_.b, block_.head, q_begin_ + lane, first_key_ + run.begin};
      const ScoreTile tile{scores_ + run.begin * kWidth + lane, kWidth, run.end - run.begin, run.vectors};
      hides = apply_with_queries_in_lanes(job_.scores, place, rows_ - lane, tile) || hides;
    }
    if (hides) prepare_mask(begin, keys, job_.scores.bias_row(block_.b, block_.head, q_begin_, block_.segment.k_begin));
  }

  template <int C>
  HWY_INLINE void score_run(const float* rows, int64_t step, const KeyRun& run) {
    const int64_t first = int64_t{run.first} * kLanes;
    for_each_row_tile<C>(run.end - run.begin, [&]<int R>(int64_t row) HWY_ATTR {
      RegisterTile<R, C> tile;
      score_chains(tile, rows + (run.begin + row) * step, step, q_ + first, kWidth, d_k_);
      tile.store(scores_ + (run.begin + row) * kWidth + first, kWidth);
    });
  }

  const InsightJob& job_;
  const QueryBlock& block_;
  const int64_t d_k_;
  int64_t q_begin_ = 0;
  int64_t rows_ = 0;
  int64_t first_key_ = 0;  // of the piece, in the item
  int vectors_ = 0;
  bool packed_ = false;
  int32_t dropout_threshold_ = 0;
  PanelRanges<kVectors> ranges_;
  TileMask<kVectors> mask_;
  RowWeights weights_;
  float* q_;           // [Dk][kWidth], scaled
  float* scores_;      // [kPieceKeys][kWidth]
  uint32_t* dropout_;  // [2][kWidth], with dropout
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
