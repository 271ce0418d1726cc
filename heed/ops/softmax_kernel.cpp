#include "heed/simd/target.h"
//
#include <algorithm>
#include <limits>

#include "heed/ops/softmax_kernel.h"
#include "heed/simd/math.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Elements whose terms are added in f32 before they go into the double sum.
constexpr int64_t kSumBlock = 1024;

// Σ term(part, i) over the row: chains by lane within a block, then the lanes in order. Lanes past the end of the row
// must be 0.
template <class Term>
HWY_INLINE double sum_of_row(int64_t count, Term term) {
  double total = 0.0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    Vector sum = hn::Zero(kFloats);
    for_each_vector(std::min(kSumBlock, count - begin),
                    [&](auto part, int64_t i) HWY_ATTR { sum = hn::Add(sum, term(part, begin + i)); });
    HWY_ALIGN float lanes[kLanes];
    hn::Store(sum, kFloats, lanes);
    for (const float lane : lanes) total += static_cast<double>(lane);
  }
  return total;
}

// The largest element that is a number, or -∞. NaN is left to the exponentials.
HWY_INLINE float largest(int64_t count, const float* x) {
  Vector best = hn::Set(kFloats, kMinusInfinity);
  for_each_vector(count, [&](auto part, int64_t i) HWY_ATTR {
    const Vector value = part.load(x + i, kMinusInfinity);
    best = hn::IfThenElse(hn::Gt(value, best), value, best);
  });
  return hn::GetLane(hn::MaxOfLanes(kFloats, best));
}

void forward_row(SoftmaxKind kind, int64_t count, const float* x, float* y) {
  const float most = largest(count, x);
  // A row of nothing but -∞ is not shifted: -∞ - (-∞) is NaN.
  const Vector shift = hn::Set(kFloats, most == kMinusInfinity ? 0.0F : most);
  const bool weights = kind == SoftmaxKind::weights;
  const double sum = sum_of_row(count, [=](auto part, int64_t i) HWY_ATTR {
    const Vector power = exp(hn::Sub(part.load(x + i, kMinusInfinity), shift));
    if (weights) part.store(power, y + i);
    return power;
  });
  if (weights) {
    const Vector factor = hn::Set(kFloats, sum == 0.0 ? 0.0F : static_cast<float>(1.0 / sum));
    for_each_vector(count,
                    [=](auto part, int64_t i) HWY_ATTR { part.store(hn::Mul(part.load(y + i), factor), y + i); });
  } else {
    const Vector logarithm = log(hn::Set(kFloats, sum == 0.0 ? 1.0F : static_cast<float>(sum)));
    for_each_vector(count, [=](auto part, int64_t i)
                               HWY_ATTR { part.store(hn::Sub(hn::Sub(part.load(x + i), shift), logarithm), y + i); });
  }
}

void backward_row(SoftmaxKind kind, int64_t count, const float* y, const float* d_y, float* d_x, bool add) {
  const bool weights = kind == SoftmaxKind::weights;
  const double sum = sum_of_row(count, [=](auto part, int64_t i) HWY_ATTR {
    const Vector d_out = part.load(d_y + i);
    return weights ? hn::Mul(part.load(y + i), d_out) : d_out;
  });
  const Vector total = hn::Set(kFloats, static_cast<float>(sum));
  for_each_vector(count, [=](auto part, int64_t i) HWY_ATTR {
    const Vector out = part.load(y + i);
    const Vector d_out = part.load(d_y + i);
    const Vector gradient = weights ? hn::Mul(out, hn::Sub(d_out, total)) : hn::NegMulAdd(exp(out), total, d_out);
    part.store(add ? hn::Add(part.load(d_x + i), gradient) : gradient, d_x + i);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void softmax_forward_kernel<kTargetIsa>(SoftmaxKind kind, int64_t count, const float* x, float* y) {
  HWY_NAMESPACE::forward_row(kind, count, x, y);
}

template <>
void softmax_backward_kernel<kTargetIsa>(SoftmaxKind kind, int64_t count, const float* y, const float* d_y, float* d_x,
                                         bool add) {
  HWY_NAMESPACE::backward_row(kind, count, y, d_y, d_x, add);
}

}  // namespace heed
