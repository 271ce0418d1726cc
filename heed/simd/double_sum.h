// A sum of floats in double. Kernel sources only (heed/simd/target.h).
#pragma once

#include "heed/simd/vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// One chain per lane; the lanes are added in order.
class DoubleSum {
 public:
  // Not defaulted: an implicit constructor is compiled without the target's instructions.
  HWY_INLINE DoubleSum() : low_(hn::Zero(kDoubles)), high_(hn::Zero(kDoubles)) {}
  HWY_INLINE void add(Vector x) {
    low_ = hn::Add(low_, hn::PromoteTo(kDoubles, hn::LowerHalf(x)));
    high_ = hn::Add(high_, hn::PromoteTo(kDoubles, hn::UpperHalf(kHalf, x)));
  }
  HWY_INLINE double total() const {
    HWY_ALIGN double lanes[kLanes];
    hn::Store(low_, kDoubles, lanes);
    hn::Store(high_, kDoubles, lanes + kLanes / 2);
    double sum = 0.0;
    for (const double lane : lanes) sum += lane;
    return sum;
  }

 private:
  static constexpr hn::ScalableTag<double> kDoubles{};
  static constexpr hn::Half<FloatTag> kHalf{};
  hn::Vec<hn::ScalableTag<double>> low_;
  hn::Vec<hn::ScalableTag<double>> high_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
