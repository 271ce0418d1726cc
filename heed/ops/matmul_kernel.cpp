// One block of a product: for each block of k, rows of a that stay in L2 are multiplied by one panel of b after the
// other, one register tile at a time.
#include "heed/simd/target.h"
//
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "heed/ops/activation_vector.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

static_assert(panel_lanes(kTargetIsa) == kLanes && most_panel_vectors(kTargetIsa) == kMostTileVectors,
              "panels are cut for these tiles");
static_assert(kCopiedRow >= round_up<int64_t>(kBlockDepth, kLanes), "a copied row ends with a whole vector");

// Rows of a for one block of k.
struct RowsOfA {
  const float* data;
  int64_t row;   // from a row to the next
  int64_t step;  // from k to k + 1
};

// One tile of c and one block of k.
template <class T>
struct TileWork {
  RowsOfA a;
  PanelsOfB<T> b;
  int64_t depth;
  float* totals;         // sums of the blocks of k before: [panel][…][width]
  int64_t totals_panel;  // from a panel to the next
  bool first;            // the first block of k: there are no totals yet
  bool last;             // the last block of k: finish and store
  int64_t row;
  int64_t column;
  const T* ahead;  // what the next tiles will read
  int64_t ahead_step;
};

// (scale · sums + bias) ∘ factor + residual → c; with an activation, the tile goes through memory.
template <int R, int C>
HWY_INLINE void finish(const MatmulCall& call, RegisterTile<R, C>& tile, int64_t row, int64_t column) {
  constexpr int64_t kWidth = C * kLanes;
  const int64_t columns = std::min(kWidth, call.panels.columns - column);
  if (columns < kWidth || !call.linear) {
    alignas(kAlignment) float sums[R * kWidth];
    tile.store(sums, kWidth);
    return finish_tile_kernel<kTargetIsa>(call, {sums, kWidth, row, R, column, columns});
  }
  auto& sum = tile.sum;
  if (call.bias.data()) {
    const Vector scale = hn::Set(kFloats, call.scale);
    const float* bias = &call.bias(column);
    tile.fill([&](int r, int c)
                  HWY_ATTR { return hn::MulAdd(scale, sum[r][c], hn::LoadU(kFloats, bias + c * kLanes)); });
  } else if (call.scale != 1.0F) {
    const Vector scale = hn::Set(kFloats, call.scale);
    tile.fill([&](int r, int c) HWY_ATTR { return hn::Mul(scale, sum[r][c]); });
  }
  if (call.factor.data()) {
    const float* factor = &call.factor(row, column);
    const int64_t step = call.factor.stride(0);
    tile.fill([&](int r, int c) HWY_ATTR {
      return multiply_by_factor(sum[r][c], hn::LoadU(kFloats, factor + r * step + c * kLanes));
    });
  }
  if (call.residual.data()) {
    const float* residual = &call.residual(row, column);
    const int64_t step = call.residual.stride(0);
    tile.fill([&](int r, int c)
                  HWY_ATTR { return hn::Add(sum[r][c], hn::LoadU(kFloats, residual + r * step + c * kLanes)); });
  }
  float* to = &call.c(row, column);
  if (call.accumulate) {
    tile.add_to(to, call.c.stride(0));
  } else {
    tile.store(to, call.c.stride(0));
  }
}

// Prefetches what the epilogue of a tile touches while the tile is computed: a miss there stalls the next tile.
template <int R, int C, int kWrite, class T>
HWY_INLINE void prefetch_rows(const View<T, 2>& view, int64_t row, int64_t column, int64_t last) {
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) __builtin_prefetch(&view(row + r, std::min(column + c * kLanes, last)), kWrite);
  }
}

template <int R, int C>
HWY_INLINE void prefetch_epilogue(const MatmulCall& call, int64_t row, int64_t column) {
  const int64_t last = call.panels.columns - 1;
  prefetch_rows<R, C, 1>(call.c, row, column, last);
  if (call.derivative.data() != nullptr) prefetch_rows<R, C, 1>(call.derivative, row, column, last);
  if (call.factor.data() != nullptr) prefetch_rows<R, C, 0>(call.factor, row, column, last);
}

// R rows × P panels of C vectors.
template <class T, int R, int C, int P>
void compute_tile(const MatmulCall& call, const TileWork<T>& work) {
  constexpr int64_t kWidth = C * kLanes;
  if (work.last) prefetch_epilogue<R, C * P>(call, work.row, work.column);
  RegisterTile<R, C * P> all;
  all.set_zero();
  const T* ahead = work.ahead;
  const int64_t ahead_step = work.ahead_step;
  all.template accumulate_panels<P>(work.a.data, work.a.row, work.a.step, work.b, work.depth,
                                    [=](int64_t k) HWY_ATTR { __builtin_prefetch(ahead + k * ahead_step); });
#pragma GCC unroll 4
  for (int p = 0; p < P; ++p) {
    RegisterTile<R, C> tile;
    tile.fill([&](int r, int c) HWY_ATTR { return all.sum[r][p * C + c]; });
    float* totals = work.totals + p * work.totals_panel;
    if (!work.first) {
      tile.fill([&](int r, int c)
                    HWY_ATTR { return hn::Add(hn::LoadU(kFloats, totals + r * kWidth + c * kLanes), tile.sum[r][c]); });
    }
    if (work.last) {
      finish(call, tile, work.row, work.column + p * kWidth);
    } else {
      tile.store(totals, kWidth);
    }
  }
}

template <class T>
using TileFunction = void (*)(const MatmulCall&, const TileWork<T>&);

// Tiles of 1 … kTileRows<C> rows.
template <class T, int C, int... R>
constexpr std::array<TileFunction<T>, sizeof...(R)> tile_table(std::integer_sequence<int, R...>) {
  return {compute_tile<T, R + 1, C, 1>...};
}
template <class T, int C>
constexpr auto kTiles = tile_table<T, C>(std::make_integer_sequence<int, kTileRows<C>>());

// The tile function of `rows` ≤ most_rows(vectors) rows.
template <class T>
TileFunction<T> tile_function(int vectors, int64_t rows) {
  TileFunction<T> function = nullptr;
  with_count<kMostTileVectors>(vectors, [&]<int C>() { function = kTiles<T, C>[static_cast<size_t>(rows - 1)]; });
  return function;
}

int64_t most_rows(int vectors) {
  int64_t rows = 0;
  with_count<kMostTileVectors>(vectors, [&]<int C>() { rows = kTileRows<C>; });
  return rows;
}

// Few rows: several wide panels at once.
constexpr int64_t kFewRows = 2;
constexpr int kPanelsInFlight[] = {0, kManyRegisters ? 3 : 4, 2};
template <class T>
TileFunction<T> wide_function(int64_t rows) {
  return rows == 1 ? compute_tile<T, 1, kMostTileVectors, kPanelsInFlight[1]>
                   : compute_tile<T, 2, kMostTileVectors, kPanelsInFlight[2]>;
}

// T as in PanelsOfB. Tiles widen bf16 themselves, for any number of rows: with many rows this has 0.93 to 0.95 of the
// speed of f32. Widening each panel once for all strips is no faster there, and slower with 16 to 64 rows.
template <class T>
class BlockProduct {
  static constexpr bool kPairs = std::is_same_v<T, uint32_t>;
  static constexpr int64_t kSteps = kPairs ? 2 : 1;  // of k, in a row of b
  static_assert(kBlockDepth % 2 == 0, "a block of k begins with a pair");

 public:
  BlockProduct(const MatmulCall& call, const MatmulBlock& block, Arena& scratch)
      : call_(call), block_(block), k_total_(call.a.size(1)), end_panel_(block.panel + block.panels) {
    const Panel last = call.panels[end_panel_ - 1];
    first_column_ = call.panels[block.panel].column;
    const int64_t padded = last.column + last.vectors * kLanes - first_column_;
    const MatmulScratch parts(scratch, call, block.rows, padded);
    totals_ = parts.totals;
    copied_a_ = parts.a;
    packed_b_ = parts.b;
  }

  void run() {
    if (block_.rows <= kFewRows) return run_few_rows();
    for (int64_t k = 0; k == 0 || k < k_total_; k += kBlockDepth) {
      for (int64_t row = 0; row < block_.rows; row += kBlockRows) {
        const int64_t rows = std::min(kBlockRows, block_.rows - row);
        const RowsOfA a = rows_of_a(row, rows, k);
        for (int64_t p = block_.panel; p < end_panel_; ++p) {
          if (row == 0) prepare(p, k);
          run_panel(p, k, row, rows, a);
        }
      }
    }
  }

 private:
  int64_t depth(int64_t k) const { return std::min(kBlockDepth, k_total_ - k); }
  int64_t width(const Panel& panel) const { return panel.vectors * kLanes; }

  // Whether a panel of an unpacked b can be read in place.
  bool in_place(const Panel& panel) const {
    return call_.direct_b && panel.column + width(panel) <= call_.panels.columns;
  }

  float* packed_panel(const Panel& panel) const {
    return packed_b_ + std::min(k_total_, kBlockDepth) * (panel.column - first_column_);
  }

  void prepare(int64_t index, int64_t k) const {
    const Panel panel = call_.panels[index];
    if (call_.is_packed() || in_place(panel)) return;
    pack_panel_kernel<kTargetIsa>({call_.b, k, depth(k)}, call_.panels, index, packed_panel(panel));
  }

  PanelsOfB<T> panels_of_b(int64_t index, int64_t k) const {
    const Panel panel = call_.panels[index];
    const int64_t wide = width(panel);
    if constexpr (kPairs) {
      const int64_t pairs = divide_up<int64_t>(k_total_, 2);
      return {call_.packed_bf16 + pairs * panel.column + k / 2 * wide, wide, pairs * wide};
    } else {
      if (call_.packed) return {call_.packed + k_total_ * panel.column + k * wide, wide, k_total_ * wide};
      if (in_place(panel)) return {call_.b.data() + k * call_.b.stride(0) + panel.column, call_.b.stride(0), wide};
      return {packed_panel(panel), wide, std::min(k_total_, kBlockDepth) * wide};
    }
  }

  // Rows row … row+rows-1 of a for the block of k at k: in place, or as a copy [row][k].
  RowsOfA rows_of_a(int64_t row, int64_t rows, int64_t k) const {
    const View<const float, 2> part = call_.a.slice(0, block_.row + row, rows).slice(1, k, depth(k));
    if (!call_.copy_a) return {part.data(), part.stride(0), part.stride(1)};
    if (part.stride(1) == 1) {
      for (int64_t i = 0; i < rows; ++i) std::copy_n(&part(i, 0), part.size(1), copied_a_ + i * kCopiedRow);
      return {copied_a_, kCopiedRow, 1};
    }
    for (int64_t i = 0; i < part.size(1); i += kLanes) {
      const int64_t columns = std::min<int64_t>(kLanes, part.size(1) - i);
      rows_to_lanes(&part(0, i), part.stride(1), columns, rows, 1.0F, copied_a_ + i, kCopiedRow);
    }
    return {copied_a_, kCopiedRow, 1};
  }

  TileWork<T> work_of(const Panel& panel, int64_t k, int64_t row) const {
    TileWork<T> work{};
    work.depth = depth(k);
    work.totals = totals_ + block_.rows * (panel.column - first_column_) + row * width(panel);
    work.totals_panel = block_.rows * width(panel);
    work.first = k == 0;
    work.last = k + kBlockDepth >= k_total_;
    work.row = block_.row + row;
    work.column = panel.column;
    return work;
  }

  // Whether the rows of a lie in memory one after the other, so that what is read next is just ahead.
  bool follows(const RowsOfA& a, int64_t depth) const { return !call_.copy_a && a.step == 1 && a.row == depth; }

  // All rows against one panel, in strips of nearly equal height.
  void run_panel(int64_t index, int64_t k, int64_t row, int64_t rows, const RowsOfA& a) const {
    const Panel panel = call_.panels[index];
    const PanelsOfB<T> b = panels_of_b(index, k);
    const int64_t strips = divide_up(rows, most_rows(panel.vectors));
    const T* next = index + 1 < end_panel_ ? panels_of_b(index + 1, k).data : b.data;
    const int64_t ahead_step = divide_up<int64_t>(width(panel), strips * kSteps);
    int64_t at = 0;
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t height = (rows - at) / (strips - strip);
      TileWork<T> work = work_of(panel, k, row + at);
      work.a = {a.data + at * a.row, a.row, a.step};
      work.b = b;
      work.ahead = next + strip * ahead_step * work.depth;
      work.ahead_step = ahead_step;
      if constexpr (!kPairs) {
        // The first panel meets rows of a that no cache has yet: it fetches those of the next strip. 10 to 20 % faster
        // where a is much larger than b.
        if (index == block_.panel && follows(a, work.depth)) {
          work.ahead = a.data + (at + height) * a.row;
          work.ahead_step = height;
        }
      }
      tile_function<T>(panel.vectors, height)(call_, work);
      at += height;
    }
  }

  // One strip: each group of panels is streamed from its first k to its last.
  void run_few_rows() const {
    const int64_t rows = block_.rows;
    int64_t p = block_.panel;
    while (p < end_panel_) {
      const Panel panel = call_.panels[p];
      int64_t group = kPanelsInFlight[rows];
      const bool wide = call_.panels.wide_vectors == kMostTileVectors &&
                        p + group <= std::min(call_.panels.wide, end_panel_) &&
                        (!call_.direct_b || in_place(call_.panels[p + group - 1]));
      if (!wide) group = 1;
      for (int64_t k = 0; k == 0 || k < k_total_; k += kBlockDepth) {
        for (int64_t i = 0; i < group; ++i) prepare(p + i, k);
        TileWork<T> work = work_of(panel, k, 0);
        work.a = rows_of_a(0, rows, k);
        work.b = panels_of_b(p, k);
        work.ahead = work.b.data;
        (wide ? wide_function<T>(rows) : tile_function<T>(panel.vectors, rows))(call_, work);
      }
      p += group;
    }
  }

  const MatmulCall& call_;
  const MatmulBlock& block_;
  const int64_t k_total_;
  const int64_t end_panel_;
  int64_t first_column_ = 0;
  float* totals_ = nullptr;
  float* copied_a_ = nullptr;
  float* packed_b_ = nullptr;
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void matmul_kernel<kTargetIsa>(const MatmulCall& call, const MatmulBlock& block, Arena& scratch) {
  if (call.packed_bf16) return HWY_NAMESPACE::BlockProduct<uint32_t>(call, block, scratch).run();
  HWY_NAMESPACE::BlockProduct<float>(call, block, scratch).run();
}

}  // namespace heed
