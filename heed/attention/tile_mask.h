// The mask of one piece of keys for one panel of queries in lanes: which runs of keys and vectors have work at all, and
// which of their lanes are visible. Kernel sources only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/attention/forward_kernel.h"
#include "heed/attention/mask.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// For each lane of V vectors the keys [begin, end) it may see, and for each vector the least and most of both.
template <int V>
struct LaneRanges {
  int32_t begin[V * kLanes];
  int32_t end[V * kLanes];
  int32_t least_begin[V];
  int32_t most_begin[V];
  int32_t least_end[V];
  int32_t most_end[V];

  // Lane i is query `first + i`; lanes past `rows` repeat the last query, so that they widen nothing. Keys count from
  // `k_begin`.
  void set(const KeyRangeRule& rule, int64_t k_begin, int64_t first, int64_t rows) {
    for (int64_t lane = 0; lane < V * kLanes; ++lane) {
      const KeyRange range = rule.at(first + std::min(lane, rows - 1));
      // A query that sees nothing gets an empty range among the keys that exist.
      end[lane] = static_cast<int32_t>(std::max<int64_t>(range.end - k_begin, 0));
      begin[lane] = static_cast<int32_t>(std::clamp<int64_t>(range.begin - k_begin, 0, end[lane]));
    }
    for (int c = 0; c < V; ++c) {
      const auto of_begin = std::minmax_element(begin + c * kLanes, begin + (c + 1) * kLanes);
      const auto of_end = std::minmax_element(end + c * kLanes, end + (c + 1) * kLanes);
      least_begin[c] = *of_begin.first;
      most_begin[c] = *of_begin.second;
      least_end[c] = *of_end.first;
      most_end[c] = *of_end.second;
    }
  }
};

// Keys [begin, end) of a piece that vectors [first, first + vectors) of the panel look at.
struct KeyRun {
  int64_t begin = 0;
  int64_t end = 0;
  int first = 0;
  int vectors = 0;
  bool masked = false;  // some lane may not see some key
};

template <int V>
class TileMask {
 public:
  static constexpr int64_t kWidth = int64_t{V} * kLanes;
  static constexpr int64_t kScratch = 2 * kPieceKeys * kWidth;

  // What a mask needs to know of the panel: its queries and the dense parts that concern them.
  struct Queries {
    const Mask* mask = nullptr;
    int64_t b = 0;
    int64_t head = 0;
    int64_t q_begin = 0;
    int64_t rows = 0;
    int64_t k_begin = 0;  // of the segment
  };

  void set_scratch(float* scratch) { dense_rows_ = scratch, dense_ = scratch + kPieceKeys * kWidth; }

  // Prepares for keys [begin, begin + keys) of the segment and a panel of `vectors` vectors.
  void prepare(const LaneRanges<V>& lanes, int vectors, int64_t begin, int64_t keys, const Queries& queries) {
    runs_ = 0;
    has_dense_ = !queries.mask->dense().empty();
    const int32_t piece_begin = static_cast<int32_t>(begin);
    const int32_t piece_end = static_cast<int32_t>(begin + keys);
    bool all = !has_dense_;
    for (int c = 0; c < vectors; ++c) {
      all = all && lanes.most_begin[c] <= piece_begin && lanes.least_end[c] >= piece_end;
    }
    everything_ = all;
    if (all) {
      run_[runs_++] = {0, keys, 0, vectors, false};
      return;
    }
    find_runs(lanes, vectors, piece_begin, keys);
    if (runs_ == 0) return;
    for (int64_t lane = 0; lane < vectors * kLanes; ++lane) {
      begin_[lane] = static_cast<float>(std::clamp<int64_t>(lanes.begin[lane] - begin, 0, keys));
      end_[lane] = static_cast<float>(std::clamp<int64_t>(lanes.end[lane] - begin, 0, keys));
    }
    if (has_dense_) expand_dense(vectors, begin, keys, queries);
  }

  int run_count() const { return runs_; }
  const KeyRun& run(int i) const { return run_[i]; }
  bool everything() const { return everything_; }  // every lane sees every key of the piece

  // Which lanes of vector c see `key` of the piece.
  HWY_INLINE hn::Mask<FloatTag> visible(int64_t key, int c) const {
    if (everything_) return hn::FirstN(kFloats, kLanes);
    if (has_dense_) return hn::Ne(hn::LoadU(kFloats, dense_ + key * kWidth + c * kLanes), hn::Zero(kFloats));
    const Vector at = hn::Set(kFloats, static_cast<float>(key));
    return hn::And(hn::Ge(at, hn::LoadU(kFloats, begin_ + c * kLanes)),
                   hn::Lt(at, hn::LoadU(kFloats, end_ + c * kLanes)));
  }

  // Which lanes of vector c see any key of the piece.
  HWY_INLINE hn::Mask<FloatTag> any_visible(int c) const {
    if (everything_) return hn::FirstN(kFloats, kLanes);
    if (has_dense_) return hn::Ne(hn::LoadU(kFloats, any_ + c * kLanes), hn::Zero(kFloats));
    return hn::Lt(hn::LoadU(kFloats, begin_ + c * kLanes), hn::LoadU(kFloats, end_ + c * kLanes));
  }

 private:
  static constexpr int64_t kStep = 8;  // keys decided together

  // Merges steps of kStep keys that concern the same vectors into runs.
  void find_runs(const LaneRanges<V>& lanes, int vectors, int32_t piece_begin, int64_t keys) {
    for (int64_t key = 0; key < keys; key += kStep) {
      const int32_t from = piece_begin + static_cast<int32_t>(key);
      const int32_t to = piece_begin + static_cast<int32_t>(std::min(key + kStep, keys));
      int first = 0;
      while (first < vectors && (lanes.most_end[first] <= from || lanes.least_begin[first] >= to)) ++first;
      int last = vectors;
      while (last > first && (lanes.most_end[last - 1] <= from || lanes.least_begin[last - 1] >= to)) --last;
      if (first == last) continue;
      KeyRun step{key, std::min(key + kStep, keys), first, last - first, has_dense_};
      int32_t most_end = 0;
      for (int c = first; c < last; ++c) {
        most_end = std::max(most_end, lanes.most_end[c]);
        step.masked = step.masked || lanes.most_begin[c] > from || lanes.least_end[c] < to;
      }
      step.end = std::min<int64_t>(step.end, most_end - piece_begin);
      KeyRun* previous = runs_ > 0 ? &run_[runs_ - 1] : nullptr;
      if (previous != nullptr && previous->end == step.begin && previous->first == step.first &&
          previous->vectors == step.vectors && previous->masked == step.masked) {
        previous->end = step.end;
      } else {
        run_[runs_++] = step;
      }
    }
  }

  // 1 where a lane sees a key and 0 elsewhere, all parts of the mask together: rows first, then into lanes.
  void expand_dense(int vectors, int64_t begin, int64_t keys, const Queries& queries) {
    for (int64_t row = 0; row < vectors * kLanes; ++row) {
      float* out = dense_rows_ + row * kPieceKeys;
      std::fill_n(out, keys, 0.0F);
      any_[row] = 0.0F;
      if (row >= queries.rows) continue;
      const auto from = static_cast<int64_t>(begin_[row]);
      const auto to = static_cast<int64_t>(end_[row]);
      for (int64_t key = from; key < to; ++key) out[key] = 1.0F;
      for (const Mask::Dense& part : queries.mask->dense()) {
        const int64_t step = part.values.stride(3);
        const bool* bits = part.row(queries.b, queries.head, queries.q_begin + row) + (queries.k_begin + begin) * step;
        for (int64_t key = from; key < to; ++key) out[key] = bits[key * step] == part.keep ? out[key] : 0.0F;
      }
      for (int64_t key = from; key < to; ++key) any_[row] = std::max(any_[row], out[key]);
    }
    for (int c = 0; c < vectors; ++c) {
      rows_to_lanes(dense_rows_ + c * kLanes * kPieceKeys, kPieceKeys, kLanes, keys, 1.0F, dense_ + c * kLanes, kWidth);
    }
  }

  int runs_ = 0;
  bool everything_ = true;
  bool has_dense_ = false;
  KeyRun run_[kPieceKeys / kStep];
  float begin_[kWidth];  // keys of the piece that each lane may see, dense parts aside
  float end_[kWidth];
  float any_[kWidth];
  float* dense_rows_ = nullptr;  // [kWidth][kPieceKeys]
  float* dense_ = nullptr;       // [kPieceKeys][kWidth]
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
