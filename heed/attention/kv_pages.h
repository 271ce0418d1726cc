// Keys and values into and out of the pages of a cache. Internal to heed/attention.
#pragma once

#include <cstdint>

#include "heed/attention/kv_cache.h"
#include "heed/simd/isa.h"

namespace heed {

// The bits of a panel: as wide as the tiles of decode (stream_tile.h), so that a tile reads one panel from end to end,
// which is how the hardware looks ahead best. Any kernel reads either.
constexpr int kv_panel_bits(Isa isa, KvStorage storage) {
  return isa == Isa::avx512 || storage == KvStorage::bf16 ? 6 : 5;
}

// Rows of one head for consecutive keys of one page.
struct KvRows {
  const float* k = nullptr;
  const float* v = nullptr;
  int64_t k_step = 0;  // floats from a key to the next
  int64_t v_step = 0;
  int64_t first = 0;  // key of the page that the first row becomes
  int64_t keys = 0;
};

// Stores the rows in a page, K transposed; rounded where the cache is bf16.
template <Isa isa>
void store_rows(const KvLayout& layout, int64_t head, int64_t page, const KvRows& rows);

}  // namespace heed
