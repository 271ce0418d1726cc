#include "heed/simd/target.h"
//
#include <algorithm>
#include <cmath>

#include "heed/ops/maxima_vector.h"
#include "heed/ops/reduce_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

template <class Part>
HWY_INLINE void max_strip(const float* x, int64_t n, int64_t step, Part part, int64_t columns, float* y,
                          int64_t* index) {
  Maxima best{part.load(x), hn::Zero(kInts)};
  for (int64_t i = 1; i < n; ++i) best.include(part.load(x + i * step), hn::Set(kInts, static_cast<int32_t>(i)));
  part.store(best.value, y);
  HWY_ALIGN int32_t places[kLanes];
  hn::Store(best.place, kInts, places);
  std::copy_n(places, columns, index);
}

void max_columns(const float* x, int64_t n, int64_t step, int64_t columns, float* y, int64_t* index) {
  for_each_vector(columns, [=](auto part, int64_t c) HWY_ATTR {
    max_strip(x + c, n, step, part, std::min<int64_t>(kLanes, columns - c), y + c, index + c);
  });
}

// Is the maximum a at place i to be preferred to b at place j?
bool precedes(float a, int64_t i, float b, int64_t j) {
  if (std::isnan(a) != std::isnan(b)) return std::isnan(a);
  if (std::isnan(a) || a == b) return i < j;
  return a > b;
}

void max_row(const float* x, int64_t n, float* y, int64_t* index) {
  float best = x[0];
  int64_t place = 0;
  const auto include = [&](float value, int64_t at) {
    if (!precedes(value, at, best, place)) return;
    best = value;
    place = at;
  };
  int64_t i = 0;
  if (n >= kLanes) {
    auto at = hn::Iota(kInts, 0);
    Maxima lanes{hn::LoadU(kFloats, x), at};
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      at = hn::Add(at, hn::Set(kInts, kLanes));
      lanes.include(hn::LoadU(kFloats, x + i), at);
    }
    HWY_ALIGN float values[kLanes];
    HWY_ALIGN int32_t places[kLanes];
    hn::Store(lanes.value, kFloats, values);
    hn::Store(lanes.place, kInts, places);
    for (int lane = 0; lane < kLanes; ++lane) include(values[lane], places[lane]);
  }
  for (; i < n; ++i) include(x[i], i);
  *y = best;
  *index = place;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void max_columns_kernel<kTargetIsa>(const float* x, int64_t n, int64_t step, int64_t columns, float* y,
                                    int64_t* index) {
  HWY_NAMESPACE::max_columns(x, n, step, columns, y, index);
}

template <>
void max_row_kernel<kTargetIsa>(const float* x, int64_t n, float* y, int64_t* index) {
  HWY_NAMESPACE::max_row(x, n, y, index);
}

}  // namespace heed
