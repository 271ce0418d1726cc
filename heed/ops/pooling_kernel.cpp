#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/maxima_vector.h"
#include "heed/ops/pooling_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void max_rectangle(const PoolRectangle& rectangle, int32_t first_place, int32_t place_step, float* y, int32_t* index) {
  for_each_vector(rectangle.width, [&](auto part, int64_t c) HWY_ATTR {
    const float* const from = rectangle.from + c;
    Maxima best{part.load(from), hn::Set(kInts, first_place)};
    for (int64_t row = 0; row < rectangle.rows; ++row) {
      const auto place = static_cast<int32_t>(first_place + row * place_step);
      for (int64_t column = 0; column < rectangle.columns; ++column) {
        best.include(part.load(from + row * rectangle.row_step + column * rectangle.width),
                     hn::Set(kInts, static_cast<int32_t>(place + column)));
      }
    }
    part.store(best.value, y + c);
    HWY_ALIGN int32_t places[kLanes];
    hn::Store(best.place, kInts, places);
    std::copy_n(places, std::min<int64_t>(kLanes, rectangle.width - c), index + c);
  });
}

void sum_rectangle(const PoolRectangle& rectangle, float factor, float* y, bool add) {
  const Vector scale = hn::Set(kFloats, factor);
  for_each_vector(rectangle.width, [&](auto part, int64_t c) HWY_ATTR {
    const float* const from = rectangle.from + c;
    Vector sum = hn::Zero(kFloats);
    for (int64_t row = 0; row < rectangle.rows; ++row) {
      for (int64_t column = 0; column < rectangle.columns; ++column) {
        sum = hn::Add(sum, part.load(from + row * rectangle.row_step + column * rectangle.width));
      }
    }
    part.store(add ? hn::MulAdd(scale, sum, part.load(y + c)) : hn::Mul(scale, sum), y + c);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void max_rectangle_kernel<kTargetIsa>(const PoolRectangle& rectangle, int32_t first_place, int32_t place_step, float* y,
                                      int32_t* index) {
  HWY_NAMESPACE::max_rectangle(rectangle, first_place, place_step, y, index);
}

template <>
void sum_rectangle_kernel<kTargetIsa>(const PoolRectangle& rectangle, float factor, float* y, bool add) {
  HWY_NAMESPACE::sum_rectangle(rectangle, factor, y, add);
}

}  // namespace heed
