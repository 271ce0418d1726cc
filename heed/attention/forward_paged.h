// How the forward kernel reads a paged cache, for chunked prompts. For forward_kernel.cpp only.
#pragma once

#include <algorithm>

#include "heed/attention/forward_block.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// The keys of a page as rows [key][d] with a stride of `step` floats, which is Dk rounded up to whole vectors.
template <class Element>
void keys_to_rows(const KvLayout& layout, const Element* k, int64_t keys, float* to, int64_t step) {
  HWY_ALIGN float block[kLanes * kPageKeys];
  for (int64_t d = 0; d < layout.d_k; d += kLanes) {
    const int64_t widths = std::min<int64_t>(kLanes, layout.d_k - d);
    for (int64_t key = 0; key < keys; key += kLanes) {
      for (int64_t i = 0; i < widths; ++i) {
        hn::StoreU(load_vector(k + layout.k_at(key, d + i)), kFloats, block + i * kPageKeys + key);
      }
    }
    rows_to_lanes(block, kPageKeys, widths, keys, 1.0F, to + d, step);
  }
}

// Its values as rows [key][d] with a stride of `step` floats, which is Dv rounded up to whole vectors.
template <class Element>
void values_to_rows(const KvLayout& layout, const Element* v, int64_t keys, float* to, int64_t step) {
  for (int64_t key = 0; key < keys; ++key) {
    for (int64_t d = 0; d < layout.d_v; d += kLanes) {
      hn::StoreU(load_vector(v + layout.v_at(key, d)), kFloats, to + key * step + d);
    }
  }
}

inline KeyPiece ForwardBlock::load_page(int64_t begin, int64_t keys) {
  const KvLayout& layout = job_.paged->layout;
  const int64_t page = job_.paged->pages[block_.b][begin / kPageKeys];
  const std::byte* const k = layout.k_page(kv_head_, page);
  const std::byte* const v = layout.v_page(kv_head_, page);
  KeyPiece piece;
  piece.begin = begin;
  piece.keys = keys;
  piece.k = k_copy_;
  piece.v = v_copy_;
  piece.k_step = round_up<int64_t>(d_k_, kLanes);
  piece.v_step = round_up<int64_t>(d_v_, kLanes);
  const auto copy = [&]<class Element>(Element) HWY_ATTR {
    keys_to_rows(layout, reinterpret_cast<const Element*>(k), keys, k_copy_, piece.k_step);
    values_to_rows(layout, reinterpret_cast<const Element*>(v), keys, v_copy_, piece.v_step);
  };
  layout.storage == KvStorage::f32 ? copy(float{}) : copy(uint16_t{});
  return piece;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
