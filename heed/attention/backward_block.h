// The state of one block of keys in the backward kernel (backward_kernel.cpp has the story). Kernel sources only.
#pragma once

#include "heed/attention/backward_kernel.h"
#include "heed/attention/dropout.h"
#include "heed/attention/visible_keys.h"
#include "heed/core/memory.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/target.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline constexpr int kKeyPanelVectors = kMostTileVectors;
inline constexpr int64_t kKeyPanelWidth = int64_t{kKeyPanelVectors} * kLanes;  // keys of a packed panel of kᵀ or vᵀ
inline constexpr int64_t kMostKeyPanels = divide_up<int64_t>(kBlockKeys, kKeyPanelWidth);
static_assert(kKeyPanelWidth <= kScoreMargin, "a panel past the last key ends within the lists of distances");
static_assert(kBlockKeys % kKeyPanelWidth == 0, "rows of a tile, kBlockKeys long, hold whole panels");

using TileStride = FixedStride<kBlockKeys>;

// `keys` keys of the block, packed [D][kKeyPanelWidth].
struct KeyPanel {
  int64_t first = 0;
  int vectors = 0;
};

// One tile of queries: which keys of the block each row may see.
struct QueryTile {
  int64_t head = 0;
  int64_t q_begin = 0;
  int64_t rows = 0;
  bool masked = false;          // some row may not see some key
  bool hidden_by_bias = false;  // -∞ in the dense bias hides keys
  bool careful = false;         // and a factor of its products is not finite: hidden pairs must be left out
  bool has_single = false;      // some row sees one key of all: single tells which
  int32_t begin[kTileQueries];
  int32_t end[kTileQueries];
  bool single[kTileQueries];
};

// The gradient of keys or values of the block: sums over queries.
struct KeySums {
  int64_t width = 0;       // floats of a row
  float* group = nullptr;  // [kBlockKeys][width]: of the group of tiles at hand
  float* total = nullptr;  // [kBlockKeys][width]: of the groups before it,
  float* rest = nullptr;   // [kBlockKeys][width]: and what its sums have lost
};

// Selects the values of a group of rows that are visible, in vectors from `key` of the block on.
struct VisibleLanes {
  const int32_t* begin = nullptr;  // of each row
  const int32_t* end = nullptr;
  const float* dense = nullptr;  // or, where not null, 1 where visible: row r at r · kBlockKeys
  int64_t key = 0;

  HWY_INLINE Vector operator()(int r, int c, Vector value) const {
    if (dense != nullptr) {
      const Vector seen = hn::LoadU(kFloats, dense + r * kBlockKeys + c * kLanes);
      return hn::IfThenElseZero(hn::Ne(seen, hn::Zero(kFloats)), value);
    }
    return hn::IfThenElseZero(keys_in_interval(key + c * kLanes, begin[r], end[r]), value);
  }
};

class BackwardBlock {
 public:
  BackwardBlock(const BackwardJob& job, const KeyBlock& block, Arena& scratch);
  void run();

 private:
  void pack_keys();
  bool set_ranges(QueryTile& tile) const;
  bool load_rows(QueryTile& tile);
  void find_single_keys(QueryTile& tile) const;
  bool sees_one_key(int64_t head, int64_t q) const;
  void zero_single_keys(const QueryTile& tile);
  void expand_dense(const QueryTile& tile);

  void fill_scores(const QueryTile& tile);
  template <int R, int C, bool masked>
  void score_tile(const QueryTile& tile, int64_t row, int panel, int first_vector);
  template <int R, int C>
  void option_tile(const QueryTile& tile, int64_t row, int panel, int first_vector, bool masked);
  VisibleLanes lanes_of(const QueryTile& tile, int64_t row, int64_t key) const;
  void zero_vectors(int64_t row, int64_t rows, int64_t key, int vectors);

  void multiply_queries(const QueryTile& tile);
  void multiply_keys(const QueryTile& tile, const float* weights, const float* rows, const KeySums& sums);
  void multiply_queries_careful(const QueryTile& tile);
  void multiply_keys_careful(const QueryTile& tile, const float* weights, const float* rows, const KeySums& sums);
  void close_group();
  void add_group_to_total(const KeySums& sums) const;
  void finish_groups();
  // Is `dense_` in use for the tile?
  bool has_dense(const QueryTile& tile) const { return tile.hidden_by_bias || !job_.mask->dense().empty(); }
  bool visible(const QueryTile& tile, int64_t row, int64_t key) const;
  void load_options(QueryTile& tile);
  void add_option_gradients(const QueryTile& tile, int64_t g, bool visited) const;
  void add_position_gradients(const QueryTile& tile, int64_t g) const;
  void wait_for_bias_turn(int64_t step) const;
  void wait_for_turn(int64_t step) const;
  // Is d_q still unwritten when this block adds to it?
  bool writes_d_q() const { return block_.before == nullptr && !job_.gradients.d_q.add; }
  void add_query_gradient(const QueryTile& tile) const;
  void write_no_query_gradient(const QueryTile& tile) const;
  void write_key_gradients() const;

  const BackwardJob& job_;
  const KeyBlock& block_;
  const int64_t keys_;
  const int64_t d_k_, d_v_;          // widths
  const int64_t width_k_, width_v_;  // widths rounded up to vectors: the row length of all buffers
  int panels_ = 0;
  KeyPanel panel_[kMostKeyPanels];
  bool keys_finite_ = true;

  float* k_lanes_;                 // [panels][Dk][kKeyPanelWidth]
  float* v_lanes_;                 // [panels][Dv][kKeyPanelWidth], times scale
  float* k_copy_;                  // [kBlockKeys][width_k]
  float* q_scaled_;                // [kTileQueries][width_k], times scale · log256 e
  float* q_copy_;                  // [kTileQueries][width_k]
  const float* q_rows_ = nullptr;  // q_copy_, or q itself where its rows are whole vectors that follow each other
  float* d_o_rows_;                // [kTileQueries][width_v]: d_out / sum
  float* p_;                       // [kTileQueries][kBlockKeys]
  float* ds_;                      // [kTileQueries][kBlockKeys]
  float* d_q_;                     // [kTileQueries][width_k]
  KeySums d_k_sums_;
  KeySums d_v_sums_;
  bool group_started_ = false;        // the group at hand holds a tile
  bool has_total_ = false;            // the totals hold a group
  float* dense_;                      // [kTileQueries][kBlockKeys]: 1 where visible, only with dense masks
  float* d_masked_;                   // [kTileQueries][kBlockKeys]: the gradient of the biased scores, with options
  float* bias_copy_;                  // [kTileQueries][kBlockKeys]
  const float* bias_rows_ = nullptr;  // of the tile: the dense bias itself, or bias_copy_
  int64_t bias_step_ = 0;
  DropoutRow dropout_[kTileQueries];
  const float* shift_ = nullptr;  // of the tile's rows
  const float* delta_ = nullptr;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
