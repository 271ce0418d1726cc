// Shared by matmul.cpp and its kernels. Internal.
#pragma once

#include "heed/ops/matmul.h"

namespace heed {

// One validated product of rank 2, and how its blocks are computed.
struct MatmulCall {
  View<const float, 2> a;                 // [M, K]
  View<const float, 2> b;                 // [K, N]; unused when packed
  const float* packed = nullptr;          // the panels of b, each [K][width]
  const uint32_t* packed_bf16 = nullptr;  // or these, each [⌈K/2⌉][width] pairs of bf16
  PanelLayout panels;                     // of the N columns
  View<float, 2> c;                       // [M, N]
  float scale = 1.0F;
  View<const float, 1> bias;
  Activation activation = Activation::none;
  View<float, 2> derivative;
  View<const float, 2> factor;
  View<const float, 2> residual;
  bool accumulate = false;

  // Copy blocks of a into contiguous rows: either a is transposed and a strip would read many cache lines, or its rows
  // are far apart, often by a power of two, and would map to few cache sets.
  bool copy_a = false;
  bool direct_b = false;  // read b in place: its rows are contiguous and reused too little to be worth packing
  bool linear = false;    // no activation, and the rows of what the epilogue touches are contiguous: done in registers

  bool is_packed() const { return packed != nullptr || packed_bf16 != nullptr; }
};

// Rows of `a` that are multiplied by all panels of a block together, so that they stay in L2. They are cut into strips
// of nearly equal height, none higher than a tile. A multiple of most tile heights (6, 8, 12; not 16), so most strips
// are full.
inline constexpr int64_t kBlockRows = 120;
// Row stride of copied `a`, in floats: room for whole vectors, and not a power of two.
inline constexpr int64_t kCopiedRow = kBlockDepth + 16;

// A block of c that one thread computes, over all of k.
struct MatmulBlock {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t panel = 0;  // the first panel
  int64_t panels = 0;
};

template <Isa>
void matmul_kernel(const MatmulCall& call, const MatmulBlock& block, Arena& scratch);

// How a product is cut into blocks, and the scratch that a block needs.
struct MatmulSplit {
  int64_t block_rows = 0;
  int64_t block_panels = 0;
  int64_t row_blocks = 0;
  int64_t panel_blocks = 0;
  size_t scratch_bytes = 0;
  bool serial = true;  // too little work for several threads
};

// Sets copy_a, direct_b and linear of `call`, and chooses the blocks for `items` such products on `threads` threads.
MatmulSplit plan_matmul(MatmulCall& call, int64_t items, int threads);

// Scratch of a block: sums of the preceding blocks of k, copied rows of a, packed panels of b.
struct MatmulScratch {
  MatmulScratch(Arena& arena, const MatmulCall& call, int64_t rows, int64_t padded_columns);

  float* totals;
  float* a;
  float* b;
};

// Rows k … k+depth-1 of b [K, N].
struct PanelSource {
  View<const float, 2> b;
  int64_t k = 0;
  int64_t depth = 0;
};

// Packs panel `panel` of the source into to [depth][width]; columns past N are 0.
template <Isa>
void pack_panel_kernel(const PanelSource& source, const PanelLayout& panels, int64_t panel, float* to);

// Packs panel `panel` of b [K, N], rounded, into to [⌈K/2⌉][width]: pairs of rows, the last padded with 0 if K is odd.
template <Isa>
void pack_bf16_panel_kernel(View<const float, 2> b, const PanelLayout& panels, int64_t panel, uint32_t* to);

// Sums of c[row …][column …] before the epilogue.
struct UnfinishedTile {
  float* sums = nullptr;  // [rows][row_step], overwritten; readable up to full vectors
  int64_t row_step = 0;
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
};

// Applies the epilogue to a tile and stores it to c.
template <Isa>
void finish_tile_kernel(const MatmulCall& call, const UnfinishedTile& tile);

}  // namespace heed
