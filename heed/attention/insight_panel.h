// The scores and weights of one panel of queries, a piece of keys at a time: the one place that insight has them from.
// Kernel sources only.
#pragma once

#include <algorithm>
#include <cmath>

#include "heed/attention/insight_kernel.h"
#include "heed/attention/tile_mask.h"
#include "heed/core/memory.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Queries are in lanes, as in forward, and a score has the same bits.
class InsightPanel {
 public:
  static constexpr int kVectors = kMostTileVectors;
  static constexpr int64_t kWidth = int64_t{kVectors} * kLanes;  // queries, and the row length of the buffers

  static int64_t scratch_floats(int64_t d_k) {
    return (d_k + kPieceKeys + 4) * kWidth + TileMask<kVectors>::kScratch + 8 * kLanes;
  }

  // Takes scratch_floats from `scratch` and moves it on.
  InsightPanel(const InsightJob& job, const QueryBlock& block, float*& scratch)
      : job_(job), block_(block), d_k_(job.inputs.q.size(3)) {
    const auto take = [&scratch](int64_t floats) {
      float* part = scratch;
      scratch += round_up<int64_t>(floats, kLanes);
      return part;
    };
    q_ = take(d_k_ * kWidth);
    scores_ = take(kPieceKeys * kWidth);
    reference_ = take(kWidth);
    sum_ = take(kWidth);
    log_sum_ = take(kWidth);
    log_sum_rest_ = take(kWidth);
    mask_.set_scratch(take(TileMask<kVectors>::kScratch));
  }

  // The queries from q on, as many as a panel has. Nothing is read yet.
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

  // Computes the scores of keys [begin, begin + keys) of the segment, at most kPieceKeys; false when none is visible.
  bool visit(int64_t begin, int64_t keys) {
    mask_.prepare(ranges_, vectors_, begin, keys,
                  {job_.mask, block_.b, block_.head, q_begin_, rows_, block_.segment.k_begin});
    if (mask_.run_count() == 0) return false;
    if (!packed_) pack();
    const View<const float, 4>& k = job_.inputs.k;
    const int64_t kv_head = block_.head / (job_.inputs.q.size(2) / k.size(2));
    const float* rows = &k(block_.b, block_.segment.k_begin + begin, kv_head, 0);
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      with_count<kVectors>(run.vectors, [&]<int C>() HWY_ATTR { score_run<C>(rows, k.stride(1), run); });
    }
    return true;
  }

  // visit(key, visible, at) for each key of the piece that vector c looks at, in order: which lanes see it, and where
  // their kLanes scores, in base 2, are.
  template <class Visit>
  HWY_INLINE void for_each_key(int c, Visit visit) const {
    // Padding lanes see nothing: what a hidden key holds must not come in by them.
    const auto used = hn::FirstN(kFloats, static_cast<size_t>(std::min<int64_t>(rows_ - c * kLanes, kLanes)));
    for (int i = 0; i < mask_.run_count(); ++i) {
      const KeyRun& run = mask_.run(i);
      if (c < run.first || c >= run.first + run.vectors) continue;
      for (int64_t key = run.begin; key < run.end; ++key) {
        visit(key, hn::And(used, mask_.visible(key, c)), scores_ + key * kWidth + c * kLanes);
      }
    }
  }

  // [kPieceKeys][kWidth]; only what for_each_key shows is set.
  float* scores() const { return scores_; }

  // 2^(score - reference) / sum by forward's exp2, so that a row sums to 1. The rounding error of the difference, which
  // would cost small weights of rows with a large reference more than 4 ulp, is put back. And log2 of the weight, to
  // less than an ulp of the score.
  struct Weight {
    Vector value;
    Vector log2;
  };
  HWY_INLINE Weight weight(Vector score, int c) const {
    const Vector reference = hn::LoadU(kFloats, reference_ + c * kLanes);
    const Vector difference = hn::Sub(score, reference);
    const Vector back = hn::Sub(difference, score);
    const Vector lost = hn::Sub(hn::Sub(score, hn::Sub(difference, back)), hn::Add(reference, back));
    const Vector error = hn::IfThenElseZero(hn::Eq(lost, lost), lost);  // NaN where a score is infinite
    const Vector power = exp2(difference);
    const Vector exact = hn::MulAdd(hn::Mul(error, hn::Set(kFloats, 0.693147181F)), power, power);
    const Vector rest = hn::Sub(error, hn::LoadU(kFloats, log_sum_rest_ + c * kLanes));
    const Vector log2 = hn::Add(hn::Sub(difference, hn::LoadU(kFloats, log_sum_ + c * kLanes)), rest);
    return {hn::Div(exact, hn::LoadU(kFloats, sum_ + c * kLanes)), log2};
  }

 private:
  template <int C>
  HWY_INLINE void score_run(const float* rows, int64_t step, const KeyRun& run) {
    const int64_t first = int64_t{run.first} * kLanes;
    for_each_row_tile<C>(run.end - run.begin, [&]<int R>(int64_t row) HWY_ATTR {
      RegisterTile<R, C> tile;
      tile.set_zero();
      tile.accumulate(rows + (run.begin + row) * step, step, 1, q_ + first, kWidth, d_k_);
      tile.store(scores_ + (run.begin + row) * kWidth + first, kWidth);
    });
  }

  // Queries into lanes, and their states.
  void pack() {
    const View<const float, 4>& q = job_.inputs.q;
    for (int64_t first = 0; first < vectors_ * kLanes; first += kLanes) {
      rows_to_lanes(&q(block_.b, q_begin_ + first, block_.head, 0), q.stride(1),
                    std::min<int64_t>(rows_ - first, kLanes), d_k_, job_.query_factor, q_ + first, kWidth);
    }
    packed_ = true;
    for (float* lanes : {reference_, log_sum_, log_sum_rest_}) std::fill_n(lanes, kWidth, 0.0F);
    std::fill_n(sum_, kWidth, 1.0F);
    if (job_.rows.sum.data() == nullptr) return;
    for (int64_t i = 0; i < rows_; ++i) {
      const float sum = job_.rows.sum(block_.b, block_.head, q_begin_ + i);
      if (sum == 0.0F) continue;
      reference_[i] = job_.rows.reference(block_.b, block_.head, q_begin_ + i);
      sum_[i] = sum;
      const double log2_sum = std::log2(static_cast<double>(sum));
      log_sum_[i] = static_cast<float>(log2_sum);
      log_sum_rest_[i] = static_cast<float>(log2_sum - static_cast<double>(log_sum_[i]));
    }
  }

  const InsightJob& job_;
  const QueryBlock& block_;
  const int64_t d_k_;
  int64_t q_begin_ = 0;
  int64_t rows_ = 0;
  int vectors_ = 0;
  bool packed_ = false;
  PanelRanges<kVectors> ranges_;
  TileMask<kVectors> mask_;
  float* q_;          // [Dk][kWidth], scaled
  float* scores_;     // [kPieceKeys][kWidth]
  float* reference_;  // [kWidth]
  float* sum_;        // [kWidth]; 1 where no key is visible, and in padding
  float* log_sum_;    // [kWidth]: log2 of the sum, in two parts
  float* log_sum_rest_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
