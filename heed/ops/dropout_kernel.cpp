#include "heed/simd/target.h"
//
#include "heed/ops/dropout_kernel.h"
#include "heed/ops/dropout_vector.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void drop_row(const DropoutMask& mask, int64_t count, const float* x, const float* added, float* y) {
  const DropoutVector second = hn::Set(kDropoutWords, mask.row.second);
  const Vector scale = hn::Set(kFloats, mask.scale);
  // The first word plus the element times kDropoutElementStep, of the next vector.
  const DropoutVector steps = hn::Mul(hn::Iota(kDropoutWords, 0), hn::Set(kDropoutWords, kDropoutElementStep));
  DropoutVector first = hn::Add(hn::Set(kDropoutWords, mask.row.first), steps);
  const DropoutVector next = hn::Set(kDropoutWords, static_cast<uint32_t>(kLanes) * kDropoutElementStep);
  for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
    const Vector factor = hn::Mul(kept(first, second, hn::Zero(kDropoutWords), mask.threshold), scale);
    const Vector in = lanes.load(x + i);
    lanes.store(added == nullptr ? hn::Mul(in, factor) : hn::MulAdd(in, factor, lanes.load(added + i)), y + i);
    first = hn::Add(first, next);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void dropout_kernel<kTargetIsa>(const DropoutMask& mask, int64_t count, const float* x, const float* added, float* y) {
  HWY_NAMESPACE::drop_row(mask, count, x, added, y);
}

}  // namespace heed
