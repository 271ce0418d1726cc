// The mask of one piece of keys for one panel of queries in lanes: which runs of keys and vectors have work at all, and
// which of their lanes are visible. Kernel sources only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "heed/attention/forward_kernel.h"
#include "heed/attention/mask.h"
#include "heed/attention/visible_keys.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// The keys that the queries of a panel of V vectors may see, counted from the segment's first key. Bounds never fall
// from one query to the next (KeyRangeRule), so the first and the last lane of a vector bound the others.
template <int V>
struct PanelRanges {
  KeyRangeRule rule;  // for lane i instead of query q
  int64_t least_begin[V];
  int64_t most_begin[V];
  int64_t least_end[V];
  int64_t most_end[V];

  void set(const QueryBlock& block, int64_t first, int64_t rows) {
    const int64_t shift = first - block.segment.k_begin;
    rule = {block.rule.begin - block.segment.k_begin, block.rule.begin_shift + shift,
            block.rule.end - block.segment.k_begin, block.rule.end_shift + shift};
    for (int c = 0; c < V; ++c) {
      const KeyRange low = rule.at(std::min<int64_t>(int64_t{c} * kLanes, rows - 1));
      const KeyRange high = rule.at(std::min<int64_t>(int64_t{c + 1} * kLanes, rows) - 1);
      least_begin[c] = low.begin;
      most_begin[c] = high.begin;
      least_end[c] = low.end;
      most_end[c] = high.end;
    }
  }
};

// Keys [begin, end) of a piece that vectors [first, first + vectors) of the panel look at.
struct KeyRun {
  int64_t begin = 0;
  int64_t end = 0;
  int first = 0;
  int vectors = 0;
  int masked = 0;  // how many vectors, from the first, have a lane that may not see some key
};

template <int V>
class TileMask {
 public:
  static constexpr int64_t kWidth = int64_t{V} * kLanes;
  // What a mask needs to know of the panel: its queries and the dense parts that concern them.
  struct Queries {
    const Mask* mask = nullptr;
    int64_t b = 0;
    int64_t head = 0;
    int64_t q_begin = 0;
    int64_t rows = 0;
    int64_t k_begin = 0;          // of the segment
    const float* bias = nullptr;  // of the first query and the segment's first key, where a -∞ hides keys; or null
    int64_t bias_step = 0;        // from a query to the next
  };

  void take_scratch(Arena& arena) {
    dense_rows_ = arena.take<float>(kPieceKeys * kWidth);
    dense_ = arena.take<float>(kPieceKeys * kWidth);
  }

  // Prepares for keys [begin, begin + keys) of the segment and a panel of `vectors` vectors.
  void prepare(const PanelRanges<V>& ranges, int vectors, int64_t begin, int64_t keys, const Queries& queries) {
    runs_ = 0;
    has_dense_ = !queries.mask->dense().empty() || queries.bias != nullptr;
    everything_ = !has_dense_;
    for (int c = 0; c < vectors; ++c) {
      everything_ = everything_ && ranges.most_begin[c] <= begin && ranges.least_end[c] >= begin + keys;
    }
    if (everything_) {
      run_[runs_++] = {0, keys, 0, vectors, 0};
      return;
    }
    find_runs(ranges, vectors, begin, keys);
    if (runs_ == 0) return;
    set_lanes(ranges.rule, vectors, begin, keys);
    if (has_dense_) expand_dense(vectors, begin, keys, queries);
  }

  int run_count() const { return runs_; }
  const KeyRun& run(int i) const { return run_[i]; }

  // Does every run go on to the last of `vectors` vectors?
  bool runs_reach_last(int vectors) const {
    bool all = true;
    for (int i = 0; i < runs_; ++i) all = all && run_[i].first + run_[i].vectors == vectors;
    return all;
  }

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
  void find_runs(const PanelRanges<V>& ranges, int vectors, int64_t begin, int64_t keys) {
    for (int64_t key = 0; key < keys; key += kStep) {
      const int64_t from = begin + key;
      const int64_t to = begin + std::min(key + kStep, keys);
      const auto idle = [&](int c) { return ranges.most_end[c] <= from || ranges.least_begin[c] >= to; };
      int first = 0;
      while (first < vectors && idle(first)) ++first;
      int last = vectors;
      while (last > first && idle(last - 1)) --last;
      if (first == last) continue;
      KeyRun step{key, std::min(to, ranges.most_end[last - 1]) - begin, first, last - first, 0};
      for (int c = first; c < last; ++c) {
        const bool all = !has_dense_ && ranges.most_begin[c] <= from && ranges.least_end[c] >= to;
        if (!all) step.masked = c + 1 - first;
      }
      KeyRun* previous = runs_ > 0 ? &run_[runs_ - 1] : nullptr;
      if (previous != nullptr && previous->end == step.begin && previous->first == step.first &&
          previous->vectors == step.vectors && previous->masked == step.masked) {
        previous->end = step.end;
      } else {
        run_[runs_++] = step;
      }
    }
  }

  // begin_ and end_ of each lane, in keys of the piece. Small floats are exact, so bounds far outside are brought near.
  HWY_INLINE void set_lanes(const KeyRangeRule& rule, int vectors, int64_t begin, int64_t keys) {
    const auto near = [&](int64_t key) HWY_ATTR {
      return hn::Set(kFloats, static_cast<float>(std::clamp<int64_t>(key - begin, -(1 << 20), 1 << 20)));
    };
    const Vector first = near(rule.begin);
    const Vector first_shift = near(rule.begin_shift);
    const Vector last = near(rule.end);
    const Vector last_shift = near(rule.end_shift);
    const Vector zero = hn::Zero(kFloats);
    const Vector most = hn::Set(kFloats, static_cast<float>(keys));
    for (int c = 0; c < vectors; ++c) {
      const Vector lane = hn::Iota(kFloats, static_cast<float>(c * kLanes));
      const Vector from = hn::Max(zero, hn::Max(first, hn::Add(first_shift, lane)));
      const Vector to = hn::Min(most, hn::Min(last, hn::Add(last_shift, lane)));
      hn::StoreU(hn::Min(from, most), kFloats, begin_ + c * kLanes);
      hn::StoreU(hn::Max(to, zero), kFloats, end_ + c * kLanes);
    }
  }

  // 1 where a lane sees a key and 0 elsewhere, all parts of the mask together: rows first, then into lanes.
  void expand_dense(int vectors, int64_t begin, int64_t keys, const Queries& queries) {
    for (int64_t row = 0; row < vectors * kLanes; ++row) {
      float* out = dense_rows_ + row * kPieceKeys;
      any_[row] = 0.0F;
      if (row >= queries.rows) {
        std::fill_n(out, keys, 0.0F);
        continue;
      }
      const KeyRange seen{static_cast<int64_t>(begin_[row]), static_cast<int64_t>(end_[row])};
      const float* const bias = queries.bias == nullptr ? nullptr : queries.bias + row * queries.bias_step + begin;
      expand_row({queries.mask, queries.b, queries.head, queries.q_begin + row, queries.k_begin + begin, bias}, seen,
                 keys, out);
      for (int64_t key = seen.begin; key < seen.end; ++key) any_[row] = std::max(any_[row], out[key]);
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
