// Stores rows of keys and values in the pages of a cache: panels of K transposed, so that decode has keys in lanes.
#include "heed/simd/target.h"

#include <algorithm>

#include "heed/attention/kv_pages.h"
#include "heed/core/bf16.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

inline float narrow_to(float value, float*) { return value; }
inline uint16_t narrow_to(float value, uint16_t*) { return to_bf16(value); }

// kLanes keys at a time, 16 widths in between; the keys before and after whole vectors one by one.
template <class Element>
void store_k(const KvRows& rows, const KvLayout& layout, Element* page) {
  constexpr int64_t kWidths = 16;
  HWY_ALIGN float block[kWidths * kLanes];
  for (int64_t key = 0; key < rows.keys;) {
    const float* const from = rows.k + key * rows.k_step;
    const int64_t at = rows.first + key;
    if (at % kLanes != 0 || key + kLanes > rows.keys) {
      for (int64_t d = 0; d < layout.d_k; ++d) page[layout.k_at(at, d)] = narrow_to(from[d], page);
      ++key;
      continue;
    }
    for (int64_t d = 0; d < layout.d_k; d += kWidths) {
      const int64_t widths = std::min(kWidths, layout.d_k - d);
      rows_to_lanes(from + d, rows.k_step, kLanes, widths, 1.0F, block, kLanes);
      for (int64_t i = 0; i < widths; ++i) {
        store_vector(hn::LoadU(kFloats, block + i * kLanes), page + layout.k_at(at, d + i));
      }
    }
    key += kLanes;
  }
}

template <class Element>
void store_v(const KvRows& rows, const KvLayout& layout, Element* page) {
  for (int64_t key = 0; key < rows.keys; ++key) {
    const float* from = rows.v + key * rows.v_step;
    const int64_t at = rows.first + key;
    int64_t d = 0;
    for (; d + kLanes <= layout.d_v; d += kLanes) {
      store_vector(hn::LoadU(kFloats, from + d), page + layout.v_at(at, d));
    }
    for (; d < layout.d_v; ++d) page[layout.v_at(at, d)] = narrow_to(from[d], page);
  }
}

template <class Element>
void store_both(const KvLayout& layout, int64_t head, int64_t page, const KvRows& rows) {
  store_k(rows, layout, reinterpret_cast<Element*>(layout.k_page(head, page)));
  store_v(rows, layout, reinterpret_cast<Element*>(layout.v_page(head, page)));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void store_rows<kTargetIsa>(const KvLayout& layout, int64_t head, int64_t page, const KvRows& rows) {
  if (layout.storage == KvStorage::f32) return HWY_NAMESPACE::store_both<float>(layout, head, page, rows);
  HWY_NAMESPACE::store_both<uint16_t>(layout, head, page, rows);
}

}  // namespace heed
