#include "heed/ops/copy.h"

#include <algorithm>

#include "heed/ops/broadcast.h"
#include "heed/ops/copy_kernel.h"
#include "heed/ops/strided_loop.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// The dimension in which `from` is contiguous, if `to` is contiguous in the innermost; -1 otherwise.
int transposed_dimension(const StridedLoop<2>& loop) {
  if (loop.rank < 2 || loop.row_stride(0) != 1) return -1;
  for (int i = loop.rank - 2; i >= 0; --i) {
    if (loop.strides[static_cast<size_t>(i)][1] == 1) return i;
  }
  return -1;
}

// Tiles of the innermost dimension and dimension `across`.
void copy_transposed(const StridedLoop<2>& loop, int across, const float* from, float* to, bool add) {
  StridedLoop<2> outer;
  for (int i = 0; i + 1 < loop.rank; ++i) {
    if (i != across) outer.append(loop.sizes[static_cast<size_t>(i)], loop.strides[static_cast<size_t>(i)]);
  }
  const int64_t rows = loop.sizes[static_cast<size_t>(across)];
  const int64_t columns = loop.row_length();
  const int64_t row_tiles = divide_up(rows, kTransposedTile);
  const int64_t tiles = row_tiles * divide_up(columns, kTransposedTile);
  const int64_t tile_elements = std::min(rows, kTransposedTile) * std::min(columns, kTransposedTile);
  const int64_t step = std::max<int64_t>(1, kTaskElements / tile_elements);
  TransposedTile shape{};
  shape.from_step = loop.row_stride(1);
  shape.to_step = loop.strides[static_cast<size_t>(across)][0];
  shape.add = add;
  const int64_t all = outer.count() * tiles;
  dispatch([&]<Isa isa>() {
    parallel_for(divide_up(all, step), [&](int64_t task, int) {
      for (int64_t n = task * step; n < std::min((task + 1) * step, all); ++n) {
        const Offsets<2> base = StridedIndex<2>(outer, outer.rank, n / tiles).offsets();
        const int64_t row = n % tiles % row_tiles * kTransposedTile;
        const int64_t column = n % tiles / row_tiles * kTransposedTile;
        TransposedTile tile = shape;
        tile.from = from + base[1] + row + column * shape.from_step;
        tile.to = to + base[0] + row * shape.to_step + column;
        tile.rows = std::min(kTransposedTile, rows - row);
        tile.columns = std::min(kTransposedTile, columns - column);
        transpose_kernel<isa>(tile);
      }
    });
  });
}

void copy_rows(const StridedLoop<2>& loop, const float* from, float* to, bool add) {
  const int64_t to_step = loop.row_stride(0);
  const int64_t from_step = loop.row_stride(1);
  dispatch([&]<Isa isa>() {
    for_each_row(loop, [&](const Offsets<2>& at, int64_t count) {
      float* const out = to + at[0];
      const float* const in = from + at[1];
      if (to_step != 1 || from_step != 1) {
        for (int64_t i = 0; i < count; ++i) {
          float& element = out[i * to_step];
          element = add ? element + in[i * from_step] : in[i * from_step];
        }
      } else if (add) {
        add_row_kernel<isa>(count, in, out);
      } else {
        std::copy_n(in, count, out);
      }
    });
  });
}

}  // namespace

void copy(View<const float, 6> from, View<float, 6> to, bool add) {
  constexpr const char* kName = "copy";
  check(from.shape() == to.shape(), kName, "from has shape ", from.shape(), ", but to has ", to.shape());
  check_view(kName, "from", from);
  check_writable(kName, "to", to);
  check_apart(kName, "to", to, "from", from);
  if (to.count() == 0) return;
  const auto loop = memory_order_loop<2, 6>(to.shape(), {to.strides(), from.strides()});
  const int across = loop.row_stride(1) == 1 ? -1 : transposed_dimension(loop);
  if (across >= 0) {
    copy_transposed(loop, across, from.data(), to.data(), add);
  } else {
    copy_rows(loop, from.data(), to.data(), add);
  }
}

}  // namespace heed
