// Which keys a row sees: an interval of them, less those that dense masks, or -∞ in the dense bias, hide. Kernel
// sources only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "heed/attention/mask.h"
#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Which of the keys key, key + 1, … in lanes lie in [begin, end)? Small whole numbers are exact in float.
template <class Bound>
HWY_INLINE hn::Mask<FloatTag> keys_in_interval(int64_t key, Bound begin, Bound end) {
  const Vector at = hn::Iota(kFloats, static_cast<float>(key));
  return hn::And(hn::Ge(at, hn::Set(kFloats, static_cast<float>(begin))),
                 hn::Lt(at, hn::Set(kFloats, static_cast<float>(end))));
}

// A query's row of the dense parts, from key k_begin of the item on.
struct DenseRow {
  const Mask* mask = nullptr;
  int64_t b = 0;
  int64_t head = 0;
  int64_t q = 0;
  int64_t k_begin = 0;
  const float* bias = nullptr;  // of key k_begin, where a -∞ hides keys; or null
};

// 1 for the keys of [seen.begin, seen.end) that the row sees and 0 for the others → out [keys].
inline void expand_row(const DenseRow& row, const KeyRange& seen, int64_t keys, float* out) {
  std::fill_n(out, keys, 0.0F);
  for (int64_t key = seen.begin; key < seen.end; ++key) out[key] = 1.0F;
  for (const Mask::Dense& part : row.mask->dense()) {
    const int64_t step = part.values.stride(3);
    const bool* const bits = part.row(row.b, row.head, row.q) + row.k_begin * step;
    for (int64_t key = seen.begin; key < seen.end; ++key) out[key] = bits[key * step] == part.keep ? out[key] : 0.0F;
  }
  if (row.bias == nullptr) return;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (int64_t key = seen.begin; key < seen.end; ++key) out[key] = row.bias[key] == kHidden ? 0.0F : out[key];
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
