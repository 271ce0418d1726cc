// The rows of one item and key/value head in the decode kernel (decode_kernel.cpp has an overview). Kernel sources
// only.
#pragma once

#include "heed/attention/decode_kernel.h"
#include "heed/attention/stream_tile.h"
#include "heed/simd/target.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

static_assert(kLanes <= kScoreMargin, "a vector past the last key ends within the lists of distances");
static_assert(kKvUnit % kLanes == 0 && kPageKeys % kLanes == 0, "rows and pages of the cache are whole vectors");

// Up to kStreamRows rows in one piece.
struct RowGroup {
  int64_t first = 0;  // row
  int count = 0;
  int64_t piece = 0;
  int64_t from[kStreamRows] = {};  // keys of the piece that each row sees
  int64_t to[kStreamRows] = {};
  int64_t begin = 0;  // keys that any row sees
  int64_t end = 0;
  int64_t all_from = 0;  // keys that every row sees
  int64_t all_to = 0;
};

class DecodeRows {
 public:
  DecodeRows(const DecodeJob& job, const DecodeItem& item, Arena& scratch);

  void run(const std::byte* next);
  void pieces(float* results);
  void merge_pieces(const float* results);

 private:
  static constexpr int64_t kUnit = 16;  // floats per cache line

  void pack_queries();
  void clear_states(int64_t first, int64_t count);
  RowGroup rows_of_piece(int64_t first, int64_t count, int64_t piece) const;

  void compute_piece(const RowGroup& group, bool first_group, const std::byte* next, RowMode mode);
  template <class Element>
  void compute_stored(const RowGroup& group, bool first_group, const std::byte* next, RowMode mode);
  template <int R, class Element>
  void score(const RowGroup& group, const Element* k, LinesAhead& ahead);
  template <int R, int C, class Element>
  void score_tile(const RowGroup& group, int64_t key, const Element* k, LinesAhead& ahead);
  template <int R>
  void weigh_keys(const RowGroup& group);
  template <int R, class Element>
  void multiply(const RowGroup& group, const Element* v, LinesAhead& ahead);
  template <int R, int C, class Element>
  void multiply_and_sum(const RowGroup& group, RegisterTile<R, C>& tile, Stream<Element>& stream, LinesAhead& ahead);
  template <int R>
  bool sums_in_range(const RowGroup& group) const;
  template <int R>
  void use_true_maximum(const RowGroup& group);

  // With score options, or when rows are recomputed (decode_options.h).
  template <int R, class Element>
  void compute_with_options(const RowGroup& group, const Element* v, LinesAhead& ahead, RowMode mode);
  void change_scores(const RowGroup& group, int r);
  hn::Mask<FloatTag> visible(const RowGroup& group, int r, int64_t key) const;
  float find_shift(const RowGroup& group, int r, RowMode mode);
  void weigh_row(const RowGroup& group, int r, float shift, RowMode mode);
  template <int R>
  void sum_weights(const RowGroup& group, int first, float* sum) const;
  void drop_weights(const RowGroup& group, int r);
  template <class Element>
  void multiply_visible(const RowGroup& group, const Element* v);
  void finish_state(int64_t row, RowMode mode);
  void merge_sink(int64_t row, RowMode mode);

  void merge(int64_t row, const float* piece);
  // Groups of pieces (decode_groups.h), for `count` rows from `first` on.
  void close_group(int64_t piece, int64_t first, int64_t count);
  void add_group_to_total(int64_t row);
  void finish_groups(int64_t first, int64_t count);
  float factor_of(int64_t row) const;  // the final factor of o
  bool is_finite(int64_t row) const;
  void finish();
  void compute_again(int64_t row, RowMode mode);
  void write(int64_t row, RowMode mode) const;

  int64_t query_of(int64_t row) const { return row / query_heads_; }
  int64_t head_of(int64_t row) const { return item_.kv_head * query_heads_ + row % query_heads_; }

  // Shift, sum and o of row r of the current group.
  float* piece_result(int r) const { return piece_ + r * piece_result_floats(layout_); }

  const DecodeJob& job_;
  const DecodeItem& item_;
  const KvLayout& layout_;
  const int64_t query_heads_;  // heads that share the key/value head
  const int64_t rows_;

  float* q_;                // [rows][Dk, padded], scaled
  float* o_;                // [rows][v_step], of the current group of pieces; at the end, of all keys
  float* shift_;            // [rows]
  float* sum_;              // [rows]
  bool has_total_ = false;  // the totals hold the preceding groups
  float* total_o_;          // [rows][v_step]
  float* total_shift_;      // [rows]
  float* total_sum_;        // [rows]
  float* rest_o_;           // [rows][v_step]: rounding errors of the totals' sums
  float* rest_sum_;         // [rows]
  float* scores_;           // [kStreamRows][kPageKeys], of the current piece
  float* weights_;          // [kStreamRows][kPageKeys]
  float* shown_;  // [kStreamRows][kPageKeys]: 0 where the dense bias is -∞ and hides a key, else 1; null without a bias
  float* piece_;         // [kStreamRows][piece_result_floats]
  int64_t weighed_ = 0;  // the next key of the current piece that needs a weight; kPageKeys: none
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
