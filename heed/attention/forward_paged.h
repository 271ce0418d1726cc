// The forward kernel's reading of a cache: prompts in chunks. For forward_kernel.cpp only.
#pragma once

#include <algorithm>

#include "heed/attention/forward_block.h"
#include "heed/simd/bf16_vector.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// [d][key] of a page to rows [key][d], `step` floats each: `step` is Dk in whole vectors.
template <class Element>
void page_to_rows(const Element* k, int64_t d_k, int64_t keys, float* to, int64_t step) {
  HWY_ALIGN float block[kLanes * kPageKeys];
  const int64_t padded = divide_up<int64_t>(keys, kLanes) * kLanes;
  for (int64_t d = 0; d < d_k; d += kLanes) {
    const int64_t widths = std::min<int64_t>(kLanes, d_k - d);
    for (int64_t i = 0; i < widths; ++i) {
      for (int64_t key = 0; key < padded; key += kLanes) {
        hn::StoreU(load_vector(k + (d + i) * kPageKeys + key), kFloats, block + i * kPageKeys + key);
      }
    }
    rows_to_lanes(block, kPageKeys, widths, keys, 1.0F, to + d, step);
  }
}

inline KeyPiece ForwardBlock::load_page(int64_t begin, int64_t keys) {
  const KvLayout& layout = job_.paged->layout;
  const int64_t page = job_.paged->pages[block_.b][begin / kPageKeys];
  KeyPiece piece;
  piece.begin = begin;
  piece.keys = keys;
  piece.k = k_copy_;
  piece.k_step = round_up<int64_t>(d_k_, kLanes);
  if (layout.storage == KvStorage::f32) {
    page_to_rows(reinterpret_cast<const float*>(layout.k_page(kv_head_, page)), d_k_, keys, k_copy_, piece.k_step);
    piece.v = reinterpret_cast<const float*>(layout.v_page(kv_head_, page));
    piece.v_step = layout.v_step;
    return piece;
  }
  page_to_rows(reinterpret_cast<const uint16_t*>(layout.k_page(kv_head_, page)), d_k_, keys, k_copy_, piece.k_step);
  const auto* v = reinterpret_cast<const uint16_t*>(layout.v_page(kv_head_, page));
  piece.v = v_copy_;
  piece.v_step = round_up<int64_t>(d_v_, kLanes);
  for (int64_t key = 0; key < keys; ++key) {
    for (int64_t d = 0; d < d_v_; d += kLanes) {
      hn::StoreU(load_vector(v + key * layout.v_step + d), kFloats, v_copy_ + key * piece.v_step + d);
    }
  }
  return piece;
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
