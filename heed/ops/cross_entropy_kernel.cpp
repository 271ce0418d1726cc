#include "heed/simd/target.h"
//
#include <algorithm>
#include <limits>

#include "heed/ops/cross_entropy_kernel.h"
#include "heed/simd/double_sum.h"
#include "heed/simd/math.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Four chains hide the latency of max; a maximum has the same bits in any order. It may be a number although the row
// has a NaN, but the sum of exponentials is then NaN.
HWY_INLINE float row_max(int64_t count, const float* row) {
  Vector most[4];
  for (Vector& each : most) each = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int n = 0; n < 4; ++n) most[n] = hn::Max(most[n], hn::LoadU(kFloats, row + i + n * kLanes));
  }
  for (; i + kLanes <= count; i += kLanes) most[0] = hn::Max(most[0], hn::LoadU(kFloats, row + i));
  const Vector all = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
  float result = hn::GetLane(hn::MaxOfLanes(kFloats, all));
  for (; i < count; ++i) result = std::max(result, row[i]);
  return result;
}

RowSoftmax row_softmax(int64_t count, const float* logits, const SmoothingWeights& smoothing) {
  RowSoftmax row;
  row.max = row_max(count, logits);
  const Vector max = hn::Set(kFloats, row.max);
  const float* const weight = smoothing.weight;
  DoubleSum sum;
  DoubleSum spread;
  const auto add_exponentials = [&](auto lanes, Vector below) HWY_ATTR { sum.add(lanes.keep(exp(below))); };
  if (!smoothing.smooths) {
    for_each_vector(
        count, [&](auto lanes, int64_t i) HWY_ATTR { add_exponentials(lanes, hn::Sub(lanes.load(logits + i), max)); });
  } else {
    for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector below = hn::Sub(lanes.load(logits + i), max);
      add_exponentials(lanes, below);
      const Vector weighted = weight == nullptr ? below : hn::Mul(below, lanes.load(weight + i));
      spread.add(lanes.keep(hn::Neg(weighted)));
    });
  }
  row.sum = sum.total();
  row.spread = spread.total();
  return row;
}

void row_gradient(int64_t count, const float* logits, const RowGradient& gradient, float* d_logits) {
  const Vector max = hn::Set(kFloats, gradient.max);
  const Vector scale = hn::Set(kFloats, gradient.scale);
  const Vector uniform = hn::Set(kFloats, gradient.uniform);
  const float* const weight = gradient.weight;
  const auto each = [&](auto minus_uniform) HWY_ATTR {
    for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector power = exp(hn::Sub(lanes.load(logits + i), max));
      const Vector result = minus_uniform(lanes, i, hn::Mul(power, scale));
      lanes.store(gradient.add ? hn::Add(lanes.load(d_logits + i), result) : result, d_logits + i);
    });
  };
  if (gradient.uniform == 0.0F) {
    each([](auto, int64_t, Vector part) HWY_ATTR { return part; });
  } else if (weight == nullptr) {
    each([&](auto, int64_t, Vector part) HWY_ATTR { return hn::Sub(part, uniform); });
  } else {
    each([&](auto lanes, int64_t i, Vector part)
             HWY_ATTR { return hn::NegMulAdd(uniform, lanes.load(weight + i), part); });
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
RowSoftmax row_softmax_kernel<kTargetIsa>(int64_t classes, const float* logits, const SmoothingWeights& smoothing) {
  return HWY_NAMESPACE::row_softmax(classes, logits, smoothing);
}

template <>
void row_gradient_kernel<kTargetIsa>(int64_t classes, const float* logits, const RowGradient& gradient,
                                     float* d_logits) {
  HWY_NAMESPACE::row_gradient(classes, logits, gradient, d_logits);
}

}  // namespace heed
