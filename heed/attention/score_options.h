// Score options: what may happen between q kᵀ and the products with v. Each is optional, and they combine freely with
// each other, with every mask, with grouped heads and with Dv != Dk. In the order of the steps:
//
//     scaled  = scale · q kᵀ
//     capped  = cap · tanh(scaled / cap)                                soft cap
//     biased  = capped - slope_h · |distance| + table[bucket][h] + bias ALiBi, relative table, dense bias
//     masked  = biased, -∞ where a key is hidden; -∞ in the dense bias hides its key
//     weights = softmax(masked), the sink joining maximum and sum; or sigmoid(masked)
//     dropped = weights / (1 - p) or 0, by counter                      dropout
//
// Letters: B batch, H query heads, Tq and Tk query and key length. Views are not copied: they must outlive the call.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/attention/mask.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

// How the scores of a row become weights.
enum class Normaliser {
  softmax,
  sigmoid,  // each weight for itself: a row has no sum of them, so no log-sum-exp and no sinks
};

// T5's relative table: the bias of a pair is table[relative_bucket(position_k - position_q, …)][h].
struct RelativeTable {
  View<const float, 2> table{};  // [buckets, H]; null: none
  int64_t max_distance = 128;    // from here on all distances share the last bucket
  bool bidirectional = true;     // half of the buckets for keys after the query; false: those share bucket 0
};

// The mask is drawn by counter from (seed, step, layer, item id, head, query, key): heed/attention/dropout.h.
struct Dropout {
  float probability = 0.0F;  // that a weight is dropped, in [0, 1); 0: no dropout
  uint64_t seed = 0;
  uint64_t step = 0;
  uint64_t layer = 0;
  std::vector<uint64_t> item_ids{};  // one an item; empty: the index in the batch

  uint64_t item_id(int64_t b) const {
    return item_ids.empty() ? static_cast<uint64_t>(b) : item_ids[static_cast<size_t>(b)];
  }
};

struct ScoreOptions {
  std::optional<float> soft_cap{};      // above 0
  View<const float, 1> alibi_slopes{};  // [H]; null: none. alibi_slopes(H) are the paper's
  RelativeTable relative{};
  // Where the queries stand among the keys, for ALiBi and the relative table. Unstated: as the mask says; where the
  // mask says nothing, query i at key i (Tq == Tk). Documents change no distance: q and k count in the same row.
  QueryPositions positions{};
  View<const float, 4> bias{};   // [B or 1, H or 1, Tq, Tk], the last dimension contiguous; null: none
  View<const float, 1> sinks{};  // [H]: a logit that takes part in the softmax and carries no value; null: none
  Normaliser normaliser = Normaliser::softmax;
  Dropout dropout{};

  // Nothing but the plain scores?
  bool is_none() const {
    return !soft_cap && !has_positions() && bias.data() == nullptr && sinks.data() == nullptr &&
           normaliser == Normaliser::softmax && dropout.probability == 0.0F;
  }

  // Do distances between positions matter?
  bool has_positions() const { return alibi_slopes.data() != nullptr || relative.table.data() != nullptr; }

  // Throws an Error that names `function` unless the options fit the sizes and the mask.
  void check_fits(const char* function, const MaskSizes& sizes, const Mask& mask) const;
  // The same for everything but the positions.
  void check_sizes(const char* function, const MaskSizes& sizes) const;

  // The position of query 0 of item b.
  int64_t query_offset(const MaskSizes& sizes, const Mask& mask, int64_t b) const;
};

// Gradients to write; null views are not computed. A gradient of what was not given is an Error.
struct ScoreGradients {
  InputGradient<4> d_bias{};          // shape of bias: sums over what is broadcast
  View<float, 1> d_alibi_slopes{};    // [H]: of a parameter, like the next two, so it is added to
  View<float, 2> d_relative_table{};  // [buckets, H]
  View<float, 1> d_sinks{};           // [H]

  void check_fits(const char* function, const ScoreOptions& options) const;
};

// The slopes of the ALiBi paper: 2^(-8 i / H) for i = 1 … H where H is a power of two; else those of the power of two
// below, followed by every other one of twice that power.
std::vector<float> alibi_slopes(int64_t heads);

// T5's bucket of a distance position_k - position_q. Half of the buckets (of a side) count single steps, the others
// grow by a constant factor up to max_distance.
int64_t relative_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool bidirectional);

}  // namespace heed
