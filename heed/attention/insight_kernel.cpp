// Insight for one task: tiles of a step, what rows look at, what keys receive. All three walk over the same panels of
// queries and pieces of keys (insight_panel.h) and differ in what they do with the scores.
#include "heed/simd/target.h"
//
#include <algorithm>
#include <limits>
#include <span>

#include "heed/attention/insight_kernel.h"
#include "heed/attention/insight_panel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr int64_t kWidth = InsightPanel::kWidth;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// visit(panel) for each panel of the block's queries.
template <class Visit>
HWY_INLINE void for_each_panel(InsightPanel& panel, const QueryBlock& block, Visit visit) {
  for (int64_t q = block.q_begin; q < block.q_end; q += panel.rows()) {
    panel.set(q);
    visit();
  }
}

// ---- Tiles.

// A score as a natural logarithm. What is finite in base 256 stays finite.
HWY_INLINE Vector natural(Vector score) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const Vector value = hn::Mul(score, hn::Set(kFloats, static_cast<float>(kLogOf256)));
  const auto finite = hn::Lt(hn::Abs(score), hn::Set(kFloats, kInfinity));
  return hn::IfThenElse(finite, clamp(value, -kMost, kMost), value);
}

// Turns the base 256 scores of the piece into values of the step, where they are.
void convert_piece(const InsightPanel& panel, AttentionStep step) {
  for (int c = 0; c < panel.vectors(); ++c) {
    if (step == AttentionStep::weights) {
      panel.for_each_weight(c, [&](int64_t, auto visible, const Weight& weight, float* at)
                                   HWY_ATTR { hn::StoreU(hn::IfThenElseZero(visible, weight.value), kFloats, at); });
    } else if (step == AttentionStep::dropped) {
      panel.for_each_weight(c, [&](int64_t key, auto visible, const Weight& weight, float* at) HWY_ATTR {
        const Vector dropped = hn::Mul(weight.value, panel.dropout_factor(key, c));
        hn::StoreU(hn::IfThenElseZero(visible, dropped), kFloats, at);
      });
    } else if (step != AttentionStep::scores) {
      panel.for_each_key(c, [&](int64_t, auto visible, float* at) HWY_ATTR {
        const Vector value = natural(hn::LoadU(kFloats, at));
        hn::StoreU(hn::IfThenElse(visible, value, hn::Set(kFloats, -kInfinity)), kFloats, at);
      });
    }
  }
}

void tile_block(const InsightJob& job, const QueryBlock& block, const TileOutput& out, Arena& scratch) {
  const bool weights = out.step == AttentionStep::weights || out.step == AttentionStep::dropped;
  const float hidden = weights ? 0.0F : -kInfinity;
  const View<float, 2>& to = out.rows;
  // Columns are counted from out.k_begin, the keys of a panel from the segment's first.
  const int64_t shift = block.segment.k_begin - out.k_begin;
  HWY_ALIGN float ones[kLanes];
  std::fill_n(ones, kLanes, 1.0F);
  InsightPanel panel(job, block, scratch);
  for_each_panel(panel, block, [&]() HWY_ATTR {
    const int64_t row = panel.q_begin() - block.q_begin;
    const auto hide = [&](int64_t from, int64_t until) {
      for (int64_t i = row; i < row + panel.rows() && from < until; ++i)
        std::fill(&to(i, from), &to(i, 0) + until, hidden);
    };
    const int64_t begin = std::clamp<int64_t>(panel.keys().begin + shift, 0, to.size(1));
    const int64_t end = std::clamp<int64_t>(panel.keys().end + shift, begin, to.size(1));
    hide(0, begin);
    hide(end, to.size(1));
    for (int64_t column = begin; column < end; column += kPieceKeys) {
      const int64_t keys = std::min(kPieceKeys, end - column);
      std::fill_n(panel.scores(), keys * kWidth, hidden);
      if (!panel.visit(column - shift, keys)) {
        hide(column, column + keys);
        continue;
      }
      convert_piece(panel, out.step);
      for (int64_t first = 0; first < panel.rows(); first += kLanes) {
        lanes_to_rows(panel.scores() + first, kWidth, ones, std::min<int64_t>(panel.rows() - first, kLanes), keys,
                      &to(row + first, column), to.stride(0));
      }
    }
  });
}

// ---- Rows.

// The K largest scores of one query. A heap whose front is the one to give way.
struct TopKey {
  float score;
  int32_t key;

  // Larger scores before smaller ones, of equal ones the lower key.
  static bool before(const TopKey& a, const TopKey& b) {
    return a.score > b.score || (a.score == b.score && a.key < b.key);
  }
};

// What a panel's queries have seen so far.
class RowSums {
 public:
  RowSums(int64_t top_k, Arena& scratch)
      : top_k_(top_k),
        largest_(scratch.take<float>(kWidth)),
        threshold_(scratch.take<float>(kWidth)),
        piece_entropy_(scratch.take<float>(kWidth)),
        terms_(scratch.take<float>(kWidth)),
        entropy_(scratch.take<double>(kWidth)),
        top_(scratch.take<TopKey>(kWidth * top_k)) {}

  void clear() {
    std::fill_n(largest_, kWidth, -kInfinity);
    std::fill_n(entropy_, kWidth, 0.0);
    std::fill_n(terms_, kWidth, 0.0F);
    // Nothing is at most NaN, so every key is a candidate until there are K.
    std::fill_n(threshold_, kWidth, std::numeric_limits<float>::quiet_NaN());
    std::fill_n(found_, kWidth, int64_t{0});
  }

  // Adds the piece that the panel has visited; first_key is its first key's place in the item.
  void add(const InsightPanel& panel, int64_t first_key, bool with_entropy) {
    for (int c = 0; c < panel.vectors(); ++c) {
      add_largest(panel, c);
      if (with_entropy) add_entropy(panel, c);
      if (top_k_ > 0) add_top(panel, first_key, c);
    }
  }

  // The sink's term of the entropy. Where no key was seen the sink has all the weight.
  void add_sink(const InsightPanel& panel, Vector sink) {
    for (int c = 0; c < panel.vectors(); ++c) {
      const Weight weight = panel.weight(sink, c);
      const Vector term = hn::Mul(weight.value, weight.log256);
      const auto counts = hn::Ne(weight.value, hn::Zero(kFloats));
      const auto alone = hn::Eq(hn::LoadU(kFloats, largest_ + c * kLanes), hn::Set(kFloats, -kInfinity));
      const Vector none = hn::Sub(weight.value, weight.value);  // NaN for a sink of NaN
      float* terms = terms_ + c * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(kFloats, terms), hn::IfThenElseZero(counts, hn::Set(kFloats, 1.0F))), kFloats,
                 terms);
      subtract_from_entropy(hn::IfThenElse(alone, none, hn::IfThenElseZero(counts, term)), c);
    }
  }

  float largest(int64_t lane) const { return largest_[lane]; }

  // A single term is that of weight 1: exactly 0, which its logarithm misses by an ulp of the score. NaN stays.
  double entropy(int64_t lane) const {
    const double value = entropy_[lane];
    return value < 0.0 || (terms_[lane] == 1.0F && value == value) ? 0.0 : value;
  }

  // The lane's top keys, the first ones first.
  std::span<const TopKey> sort_top(int64_t lane) {
    TopKey* top = top_ + lane * top_k_;
    std::sort(top, top + found_[lane], TopKey::before);
    return {top, static_cast<size_t>(found_[lane])};
  }

 private:
  // The largest, or NaN where there is one.
  void add_largest(const InsightPanel& panel, int c) {
    Vector largest = hn::LoadU(kFloats, largest_ + c * kLanes);
    panel.for_each_key(c, [&](int64_t, auto visible, const float* at) HWY_ATTR {
      const Vector score = hn::LoadU(kFloats, at);
      // Not at most: larger, or NaN, or after NaN, which must stay.
      const auto larger = hn::AndNot(hn::Le(score, largest), hn::And(visible, hn::Eq(largest, largest)));
      largest = hn::IfThenElse(larger, score, largest);
    });
    hn::StoreU(largest, kFloats, largest_ + c * kLanes);
  }

  // -Σ w log256 w: no term is below 0, so nothing cancels. Where w is 0, so is the term.
  void add_entropy(const InsightPanel& panel, int c) {
    Vector sum = hn::Zero(kFloats);
    Vector terms = hn::LoadU(kFloats, terms_ + c * kLanes);
    panel.for_each_weight(c, [&](int64_t, auto visible, const Weight& weight, const float*) HWY_ATTR {
      const auto counts = hn::AndNot(hn::Eq(weight.value, hn::Zero(kFloats)), visible);
      terms = hn::Add(terms, hn::IfThenElseZero(counts, hn::Set(kFloats, 1.0F)));
      sum = hn::Add(sum, hn::IfThenElseZero(counts, hn::Mul(weight.value, weight.log256)));
    });
    hn::StoreU(terms, kFloats, terms_ + c * kLanes);
    subtract_from_entropy(sum, c);
  }

  void subtract_from_entropy(Vector terms, int c) {
    float* at = piece_entropy_ + c * kLanes;
    hn::StoreU(terms, kFloats, at);
    for (int64_t i = 0; i < kLanes; ++i) entropy_[c * kLanes + i] -= static_cast<double>(at[i]);
  }

  void add_top(const InsightPanel& panel, int64_t first_key, int c) {
    panel.for_each_key(c, [&](int64_t key, auto visible, const float* at) HWY_ATTR {
      const Vector threshold = hn::LoadU(kFloats, threshold_ + c * kLanes);
      const auto candidates = hn::AndNot(hn::Le(hn::LoadU(kFloats, at), threshold), visible);
      if (HWY_LIKELY(hn::AllFalse(kFloats, candidates))) return;
      uint8_t bits[8] = {};
      hn::StoreMaskBits(kFloats, candidates, bits);
      for (int64_t i = 0; i < kLanes; ++i) {
        if ((bits[i / 8] >> (i % 8) & 1) != 0) insert(c * kLanes + i, {at[i], static_cast<int32_t>(first_key + key)});
      }
    });
  }

  void insert(int64_t lane, TopKey candidate) {
    if (candidate.score != candidate.score) return;
    TopKey* top = top_ + lane * top_k_;
    if (found_[lane] == top_k_) {
      std::pop_heap(top, top + top_k_, TopKey::before);
      top[top_k_ - 1] = candidate;
    } else {
      top[found_[lane]++] = candidate;
    }
    std::push_heap(top, top + found_[lane], TopKey::before);
    if (found_[lane] == top_k_) threshold_[lane] = top[0].score;
  }

  const int64_t top_k_;
  float* largest_;        // [kWidth], in base 256
  float* threshold_;      // [kWidth]: the least of the top scores once there are K
  float* piece_entropy_;  // [kWidth]
  float* terms_;          // [kWidth]: keys, and sinks, of weight other than 0
  double* entropy_;       // [kWidth], in base 256
  TopKey* top_;           // [kWidth][K]
  int64_t found_[kWidth];
};

// Where the panel's first query goes.
struct RowPlace {
  int64_t b;
  int64_t head;
  int64_t row;
};

void write_top(const InsightPanel& panel, RowSums& sums, const RowInsight& out, const RowPlace& place) {
  const bool keys = out.top_keys.data() != nullptr;
  const int64_t top_k = keys ? out.top_keys.size(3) : out.top_weights.size(3);
  for (int64_t lane = 0; lane < panel.rows(); ++lane) {
    const bool unknown = sums.largest(lane) != sums.largest(lane);
    const std::span<const TopKey> top = sums.sort_top(lane);
    const auto found = unknown ? 0 : static_cast<int64_t>(top.size());
    for (int64_t i = 0; i < top_k; ++i) {
      const TopKey key = i < found ? top[static_cast<size_t>(i)] : TopKey{0.0F, -1};
      if (keys) out.top_keys(place.b, place.head, place.row + lane, i) = key.key;
      if (out.top_weights.data() == nullptr) continue;
      HWY_ALIGN float weights[kLanes];
      hn::Store(panel.weight(hn::Set(kFloats, key.score), static_cast<int>(lane / kLanes)).value, kFloats, weights);
      const float none = unknown ? sums.largest(lane) : 0.0F;
      out.top_weights(place.b, place.head, place.row + lane, i) = i < found ? weights[lane % kLanes] : none;
    }
  }
}

void write_rows(const InsightPanel& panel, RowSums& sums, const RowInsight& out, const RowPlace& place) {
  for (int64_t lane = 0; lane < panel.rows(); ++lane) {
    const int64_t row = place.row + lane;
    if (out.largest.data() != nullptr)
      out.largest(place.b, place.head, row) = hn::GetLane(natural(hn::Set(kFloats, sums.largest(lane))));
    if (out.entropy.data() == nullptr) continue;
    out.entropy(place.b, place.head, row) = static_cast<float>(sums.entropy(lane) * kLogOf256);
  }
  if (out.top_keys.data() != nullptr || out.top_weights.data() != nullptr) write_top(panel, sums, out, place);
}

int64_t top_k_of(const RowInsight& out) {
  if (out.top_keys.data() != nullptr) return out.top_keys.size(3);
  return out.top_weights.data() != nullptr ? out.top_weights.size(3) : 0;
}

void rows_block(const InsightJob& job, const QueryBlock& block, int64_t q_begin, const RowInsight& out,
                Arena& scratch) {
  InsightPanel panel(job, block, scratch);
  RowSums sums(top_k_of(out), scratch);
  for_each_panel(panel, block, [&]() HWY_ATTR {
    sums.clear();
    for (int64_t begin = panel.keys().begin; begin < panel.keys().end; begin += kPieceKeys) {
      if (!panel.visit(begin, std::min(kPieceKeys, panel.keys().end - begin))) continue;
      sums.add(panel, block.segment.k_begin + begin, out.entropy.data() != nullptr);
    }
    if (job.scores.sinks.data() != nullptr && out.entropy.data() != nullptr) {
      panel.pack();
      sums.add_sink(panel, hn::Set(kFloats, job.scores.sink(block.head)));
    }
    write_rows(panel, sums, out, {block.b, block.head, panel.q_begin() - q_begin});
  });
}

// ---- Keys.

// Adds the weights of the panel's queries to sums [kMassKeys][kLanes], for keys [begin, end) of the segment.
void add_weights(InsightPanel& panel, int64_t begin, int64_t end, float* sums) {
  for (int64_t first = begin; first < end; first += kPieceKeys) {
    if (!panel.visit(first, std::min(kPieceKeys, end - first))) continue;
    for (int c = 0; c < panel.vectors(); ++c) {
      panel.for_each_weight(c, [&](int64_t key, auto visible, const Weight& weight, float*) HWY_ATTR {
        float* sum = sums + (first - begin + key) * kLanes;
        hn::Store(hn::Add(hn::Load(kFloats, sum), hn::IfThenElseZero(visible, weight.value)), kFloats, sum);
      });
    }
  }
}

// [kMassKeys][kLanes]
float* take_mass_sums(Arena& scratch) { return scratch.take<float>(kMassKeys * kLanes); }

void mass_block(const InsightJob& job, const MassBlock& block, const View<float, 3>& out, Arena& scratch) {
  const int64_t begin = block.k_begin - block.queries.segment.k_begin;
  const int64_t keys = block.k_end - block.k_begin;
  InsightPanel panel(job, block.queries, scratch);
  float* const sums = take_mass_sums(scratch);
  double totals[kMassKeys] = {};
  std::fill_n(sums, keys * kLanes, 0.0F);
  const auto add_to_totals = [&]() HWY_ATTR {
    for (int64_t key = 0; key < keys; ++key) {
      float* sum = sums + key * kLanes;
      totals[key] += static_cast<double>(hn::GetLane(hn::SumOfLanes(kFloats, hn::Load(kFloats, sum))));
      hn::Store(hn::Zero(kFloats), kFloats, sum);
    }
  };
  int64_t added = 0;  // queries in `sums`
  for_each_panel(panel, block.queries, [&]() HWY_ATTR {
    if (panel.keys().end <= begin || panel.keys().begin >= begin + keys) return;
    add_weights(panel, begin, begin + keys, sums);
    added += panel.rows();
    if (added < kInsightQueries) return;
    add_to_totals();
    added = 0;
  });
  add_to_totals();
  for (int64_t key = 0; key < keys; ++key) {
    out(block.queries.b, block.queries.head, block.k_begin + key) = static_cast<float>(totals[key]);
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
size_t insight_scratch<kTargetIsa>(int64_t d_k, int64_t top_k) {
  using namespace HWY_NAMESPACE;
  InsightJob job;
  job.inputs.q = {nullptr, {1, 0, 1, d_k}};
  const QueryBlock block;
  Arena arena = Arena::dry_run();
  const InsightPanel panel(job, block, arena);
  {
    const Arena::Scope scope(arena);
    const RowSums sums(top_k, arena);
  }
  take_mass_sums(arena);
  return arena.peak_bytes();
}

template <>
void insight_tile_kernel<kTargetIsa>(const InsightJob& job, const QueryBlock& block, const TileOutput& out,
                                     Arena& scratch) {
  HWY_NAMESPACE::tile_block(job, block, out, scratch);
}

template <>
void insight_rows_kernel<kTargetIsa>(const InsightJob& job, const QueryBlock& block, int64_t q_begin,
                                     const RowInsight& out, Arena& scratch) {
  HWY_NAMESPACE::rows_block(job, block, q_begin, out, scratch);
}

template <>
void insight_mass_kernel<kTargetIsa>(const InsightJob& job, const MassBlock& block, View<float, 3> out,
                                     Arena& scratch) {
  HWY_NAMESPACE::mass_block(job, block, out, scratch);
}

}  // namespace heed
