// The weights of one panel of queries, from their scores and row states. Kernel sources only.
#pragma once

#include <algorithm>
#include <cmath>

#include "heed/attention/insight_kernel.h"
#include "heed/attention/score_passes.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

struct Weight {
  Vector value;
  Vector log256;  // with an error below an ulp of the score; not set with sigmoid
};

class RowWeights {
 public:
  static constexpr int64_t kWidth = int64_t{kMostTileVectors} * kLanes;  // queries per panel

  void take_scratch(Arena& arena) {
    shift_ = arena.take<float>(kWidth);
    sum_ = arena.take<float>(kWidth);
    log_sum_ = arena.take<float>(kWidth);
    log_sum_rest_ = arena.take<float>(kWidth);
  }

  // Loads the row states of `count` queries of the block, from q on.
  void load(const RowStates<const float>& rows, const QueryBlock& block, int64_t q, int64_t count) {
    for (float* lanes : {shift_, log_sum_, log_sum_rest_}) std::fill_n(lanes, kWidth, 0.0F);
    std::fill_n(sum_, kWidth, 1.0F);
    if (rows.sum.data() == nullptr) return;
    for (int64_t i = 0; i < count; ++i) {
      const float sum = rows.sum(block.b, block.head, q + i);
      if (sum == 0.0F) continue;
      shift_[i] = rows.shift(block.b, block.head, q + i);
      sum_[i] = sum;
      const double log_sum = std::log2(static_cast<double>(sum)) / static_cast<double>(kScoreBits);
      log_sum_[i] = static_cast<float>(log_sum);
      log_sum_rest_[i] = static_cast<float>(log_sum - static_cast<double>(log_sum_[i]));
    }
  }

  // 256^(score - shift) / sum with forward's exp256, so that a row sums to 1. The rounding error of the difference,
  // which would cost small weights of rows with a large shift more than 4 ulp, is compensated. `options` is
  // job.has_options.
  template <bool options>
  HWY_INLINE Weight weight(const ScoreJob& job, Vector score, int c) const {
    if (options && job.sigmoid) return {weight_of(job, score), hn::Zero(kFloats)};
    const Vector shift = hn::LoadU(kFloats, shift_ + c * kLanes);
    const Vector difference = hn::Sub(score, shift);
    const Vector back = hn::Sub(difference, score);
    const Vector lost = hn::Sub(hn::Sub(score, hn::Sub(difference, back)), hn::Add(shift, back));
    const Vector error = hn::IfThenElseZero(hn::Eq(lost, lost), lost);  // NaN if a score is infinite
    const Vector power = exp256(difference);
    const Vector exact = hn::MulAdd(hn::Mul(error, hn::Set(kFloats, static_cast<float>(kLogOf256))), power, power);
    const Vector rest = hn::Sub(error, hn::LoadU(kFloats, log_sum_rest_ + c * kLanes));
    const Vector log256 = hn::Add(hn::Sub(difference, hn::LoadU(kFloats, log_sum_ + c * kLanes)), rest);
    return {hn::Div(exact, hn::LoadU(kFloats, sum_ + c * kLanes)), log256};
  }

 private:
  float* shift_ = nullptr;         // [kWidth]
  float* sum_ = nullptr;           // [kWidth]; 1 if no key is visible, in padding, and without row states
  float* log_sum_ = nullptr;       // [kWidth]: log256 of the sum, in two parts
  float* log_sum_rest_ = nullptr;  // [kWidth]
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
