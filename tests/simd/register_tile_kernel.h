// heed/simd/register_tile.h for the tests.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed::test {

struct TileFacts {
  int lanes;
  int most_vectors;
  bool fused;  // multiply-add rounds once
};

template <Isa>
TileFacts tile_facts_kernel();

// What a tile does with `out`, [rows][vectors · lanes].
enum class TileStart { zero, load, add };

// out = [out +] a b, with a(r, k) = a[r · a_row + k · a_step] and rows of b.
struct TileProduct {
  const float* a;
  int64_t a_row;  // 1 takes the unit-stride form
  int64_t a_step;
  const float* b;
  int64_t b_step;
  int64_t depth;
  float* out;
  int64_t out_step;
  TileStart start;  // zero: out = ab; load: the chain begins at out; add: out + (ab)
};

// One register tile of `rows` (1 … 16) by `vectors` (1 … most_vectors).
template <Isa>
void tile_kernel(const TileProduct& product, int rows, int vectors);

// Any number of rows, through for_each_row_tile.
template <Isa>
void row_tiles_kernel(const TileProduct& product, int64_t rows, int vectors);

}  // namespace heed::test
