// Stores keys and values in the pages of a cache. Internal to heed/attention.
#pragma once

#include <cstdint>

#include "heed/attention/kv_cache.h"
#include "heed/simd/isa.h"

namespace heed {

// log2 of the panel size: as wide as the tiles of decode (stream_tile.h), so that a tile reads one panel sequentially,
// which suits the hardware prefetcher best. Every kernel can read both sizes.
constexpr int kv_panel_bits(Isa isa, KvStorage storage) {
  return isa == Isa::avx512 || storage == KvStorage::bf16 ? 6 : 5;
}

// Rows of one head for consecutive keys of one page.
struct KvRows {
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t k_step = 0;  // stride between keys, in floats
  int64_t v_step = 0;
  int64_t first = 0;  // index in the page of the first row's key
  int64_t keys = 0;
};

// Stores the rows in a page, K transposed; rounded if the cache is bf16.
template <Isa isa>
void store_rows(const KvLayout& layout, int64_t head, int64_t page, const KvRows& rows);

}  // namespace heed
