// The state of one block of queries in the forward kernel (forward_kernel.cpp has the story). Kernel sources only.
#pragma once

#include <limits>

#include "heed/attention/forward_kernel.h"
#include "heed/attention/prefetch.h"
#include "heed/attention/score_chain.h"
#include "heed/attention/score_passes.h"
#include "heed/attention/tile_mask.h"
#include "heed/core/memory.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/target.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline constexpr int kPanelVectors = kMostTileVectors;
inline constexpr int64_t kWidth =
    int64_t{kPanelVectors} * kLanes;  // queries of a panel, and the row length of its buffers
inline constexpr int64_t kMostPanels = divide_up<int64_t>(kMostBlockQueries, kWidth);
static_assert(kWidth <= kScoreMargin, "a panel past the last query ends within the lists of distances");
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

using PanelMask = TileMask<kPanelVectors>;

// The state of a panel's softmax, not normalised.
struct SoftmaxState {
  float* o = nullptr;      // [Dv][kWidth]
  float* shift = nullptr;  // [kWidth]
  float* sum = nullptr;    // [kWidth]
};

// Up to kWidth queries of the block, in lanes.
struct QueryPanel {
  int64_t q_begin = 0;
  int64_t rows = 0;         // queries; lanes past them are padding
  int vectors = 0;          // lanes in use, in vectors
  bool started = false;     // o holds at least one piece of the group at hand
  bool zero_shifts = true;  // every shift of the group is 0, or -∞ for a query that has seen no key
  bool has_total = false;   // `total` holds the groups before it
  PanelRanges<kPanelVectors> keys;
  float* q = nullptr;           // [Dk][kWidth], scaled
  SoftmaxState group;           // of the group of pieces at hand; of all keys when they are finished
  SoftmaxState total;           // of the groups before it,
  SoftmaxState rest;            // and what the sums of total.sum and total.o have lost
  uint32_t* dropout = nullptr;  // [2][kWidth]: the words of each query's row (dropout.h)
  float* suspect = nullptr;     // [kWidth]: NaN where the query's result is not finite
};

// One piece of keys: rows of k and v, and where it lies in its segment.
struct KeyPiece {
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t k_step = 0;
  int64_t v_step = 0;
  int64_t begin = 0;  // first key, from the segment's first
  int64_t keys = 0;
};

class ForwardBlock {
 public:
  ForwardBlock(const ForwardJob& job, const QueryBlock& block, const QueryBlock* next, Arena& scratch);
  void run();

 private:
  void prefetch_piece(int64_t begin, int64_t keys);
  void prefetch_block(const QueryBlock& next);
  // Is the next piece prefetched as fast as this one is read?
  bool prefetches_next_piece() const { return panels_ == 1 && job_.paged == nullptr; }
  // May there be more than one group of pieces?
  bool has_groups() const { return block_.segment.k_end - block_.segment.k_begin > kGroupPieces * kPieceKeys; }
  void pack_queries();
  void visit_pieces(RowMode mode);
  KeyPiece load_piece(int64_t begin, int64_t keys);
  KeyPiece load_page(int64_t begin, int64_t keys);
  void prepare_mask(const QueryPanel& panel, const KeyPiece& piece, const float* bias = nullptr);
  void visit(QueryPanel& panel, const KeyPiece& piece, RowMode mode);

  template <int C, class Epilogue>
  void score_tiles(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run, Epilogue epilogue);
  void exponentiate(const QueryPanel& panel, const KeyPiece& piece);
  template <int C, int masked>
  void exponentiate_run(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run);
  void store_scores(const QueryPanel& panel, const KeyPiece& piece);
  void prefetch_bias(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run, int64_t first,
                     int64_t keys) const;
  bool find_shifts(QueryPanel& panel);
  template <int C>
  void find_largest(const KeyRun& run);
  void weigh_stored(bool with_shifts);
  void drop_weights(const QueryPanel& panel, const KeyPiece& piece);
  void finish_states(QueryPanel& panel, RowMode mode);
  void merge_sink(QueryPanel& panel, RowMode mode);
  bool sums_in_range(const QueryPanel& panel) const;
  void use_true_maximum(const QueryPanel& panel, const KeyPiece& piece, RowMode mode);

  void multiply(QueryPanel& panel, const KeyPiece& piece, RowMode mode);
  template <int C>
  void multiply_all(const QueryPanel& panel, const KeyPiece& piece);
  template <int C>
  void multiply_run(const KeyPiece& piece, const KeyRun& run, float* o);
  void multiply_run_careful(const KeyPiece& piece, const KeyRun& run, float* o);
  void merge_zero_shifts(QueryPanel& panel, bool with_o);
  void merge_scaled(QueryPanel& panel);
  void start_group(QueryPanel& panel, RowMode mode);
  void close_group(QueryPanel& panel, RowMode mode);
  void add_group_to_total(QueryPanel& panel);
  void finish_groups(QueryPanel& panel);

  bool find_suspects(QueryPanel& panel);
  void write(const QueryPanel& panel, RowMode mode);
  void write_states(const QueryPanel& panel, int64_t first, int64_t count, float sum_scale);

  const ForwardJob& job_;
  const QueryBlock& block_;
  const QueryBlock* const next_;
  const int64_t head_;
  const int64_t kv_head_;
  const int64_t d_k_;
  const int64_t d_v_;
  bool copy_rows_ = false;
  int panels_ = 0;
  QueryPanel panel_[kMostPanels];
  PanelMask mask_;
  Prefetcher prefetcher_;

  float* weights_;      // [kPieceKeys][kWidth] of the panel and piece at hand, not normalised
  float* piece_sum_;    // [kWidth]
  float* piece_shift_;  // [kWidth]
  float* piece_o_;      // [Dv][kWidth]
  float* k_copy_;       // [kPieceKeys][Dk, or up to whole vectors]
  float* v_copy_;       // [kPieceKeys][Dv, likewise]
};

// Inlined, a tile shares its 16 registers with the constants of exp256, which the compiler keeps from tile to tile, and
// one of its sums goes through memory at every step: 13 % slower. With 32 registers there is room.
#if HWY_TARGET <= HWY_AVX3
#define HEED_TILE_FUNCTION
#else
#define HEED_TILE_FUNCTION HWY_NOINLINE
#endif

// Scores of the run's keys and vectors, handed to epilogue(tile, first key, first vector).
template <int C, class Epilogue>
HWY_INLINE void ForwardBlock::score_tiles(const QueryPanel& panel, const KeyPiece& piece, const KeyRun& run,
                                          Epilogue epilogue) {
  const float* q = panel.q + run.first * kLanes;
  for_each_row_tile<C>(run.end - run.begin, [&]<int R>(int64_t row) HWY_ATTR HEED_TILE_FUNCTION {
    prefetcher_.step(prefetches_next_piece() ? R * divide_up<int64_t>(d_k_, 16) : 8);
    RegisterTile<R, C> tile;
    score_chains(tile, piece.k + (run.begin + row) * piece.k_step, piece.k_step, q, kWidth, d_k_);
    epilogue(tile, run.begin + row);
  });
}
#undef HEED_TILE_FUNCTION

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
