#include <algorithm>

#include "heed/ops/matmul_kernel.h"

namespace heed {
namespace {

// Blocks are at most so large: their packed panels and sums stay near, and what is packed is used often.
constexpr int64_t kMostRows = 1080;
constexpr int64_t kMostColumns = 768;
// A block below this many multiply-adds is not worth a thread of its own (about 10 µs).
constexpr int64_t kLeastWork = int64_t{1} << 19;
// With fewer rows, packing costs more than it saves.
constexpr int64_t kDirectRows = 16;
// Block heights are multiples of this, which every tile height but 16 divides, so that few strips are lower than a
// tile.
constexpr int64_t kRowUnit = 24;
static_assert(kMostRows % kBlockRows == 0 && kBlockRows % kRowUnit == 0, "whole blocks of rows, but for the last");
// If b is packed on the fly, each block of rows packs it again, so columns are split first, down to this. Rows of a
// that are far apart are copied if there are more columns.
constexpr int64_t kFewColumns = 128;

// Chunks of equal size, a multiple of `unit`.
int64_t chunk_size(int64_t total, int64_t chunks, int64_t unit) {
  return std::max(unit, round_up(divide_up(total, std::max<int64_t>(chunks, 1)), unit));
}

bool contiguous_rows(const MatmulCall& call) {
  return call.c.stride(1) == 1 && (!call.bias.data() || call.bias.stride(0) == 1) &&
         (!call.residual.data() || call.residual.stride(1) == 1) && (!call.factor.data() || call.factor.stride(1) == 1);
}

}  // namespace

MatmulScratch::MatmulScratch(Arena& arena, const MatmulCall& call, int64_t rows, int64_t padded_columns)
    : totals(arena.take<float>(call.a.size(1) > kBlockDepth ? rows * padded_columns : 0)),
      a(arena.take<float>(call.copy_a ? std::min(rows, kBlockRows) * kCopiedRow : 0)),
      b(arena.take<float>(call.is_packed() ? 0 : std::min(call.a.size(1), kBlockDepth) * padded_columns)) {}

MatmulSplit plan_matmul(MatmulCall& call, int64_t items, int threads) {
  const int64_t m = call.a.size(0);
  const int64_t k = call.a.size(1);
  const int64_t n = call.panels.columns;
  call.linear = call.activation == Activation::none && !call.derivative.data() && contiguous_rows(call);
  const bool transposed = call.a.stride(0) == 1 && call.a.stride(1) != 1;
  const bool apart = call.a.stride(1) == 1 && call.a.stride(0) > kBlockDepth && n > kFewColumns;
  call.copy_a = (transposed || apart) && m > kDirectRows && n > kDirectRows;
  call.direct_b = !call.is_packed() && call.b.stride(1) == 1 && m <= kDirectRows;

  const int64_t panel_columns = call.panels.wide_vectors * call.panels.lanes;
  int64_t row_blocks = divide_up(m, kMostRows);
  int64_t panel_blocks = divide_up(n, kMostColumns);
  const int64_t work = element_count(Shape<4>{items, m, n, std::max<int64_t>(k, 1)});
  const int64_t wanted = std::min<int64_t>(threads == 1 ? 1 : 2 * threads, work / kLeastWork);
  MatmulSplit split;
  split.serial = wanted <= 1;
  for (;;) {
    split.block_rows = std::min(m, chunk_size(m, row_blocks, kRowUnit));
    split.block_panels = std::min(call.panels.count(), chunk_size(call.panels.count(), panel_blocks, 1));
    split.row_blocks = divide_up(m, split.block_rows);
    split.panel_blocks = divide_up(call.panels.count(), split.block_panels);
    const int64_t blocks = items * split.row_blocks * split.panel_blocks;
    // A last round that leaves threads idle counts for little among many.
    const bool even = split.serial || blocks % threads == 0 || blocks >= 8 * threads;
    if (blocks >= wanted && even) break;
    const int64_t columns = split.block_panels * panel_columns;
    const bool rows_first = call.is_packed() ? split.block_rows >= columns : columns <= kFewColumns;
    const bool more_rows = split.block_rows > kRowUnit && rows_first;
    if (more_rows) {
      ++row_blocks;
    } else if (split.block_panels > 1) {
      ++panel_blocks;
    } else {
      break;
    }
  }
  const int64_t padded = std::min(call.panels.padded_columns(), split.block_panels * panel_columns);
  Arena arena = Arena::dry_run();
  const MatmulScratch scratch(arena, call, split.block_rows, padded);
  split.scratch_bytes = arena.peak_bytes();
  return split;
}

}  // namespace heed
