#include "heed/simd/target.h"
// The target comes first.
#include "heed/simd/transpose.h"
#include "tests/simd/transpose_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void pack(const test::RowsToLanes& call) {
  rows_to_lanes(call.from, call.from_step, call.rows, call.columns, call.factor, call.to, call.to_step);
}

void unpack(const test::LanesToRows& call) {
  lanes_to_rows(call.from, call.from_step, call.factor, call.rows, call.columns, call.to, call.to_step);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed::test {

template <>
int64_t lanes_kernel<kTargetIsa>() {
  return HWY_NAMESPACE::kLanes;
}

template <>
void rows_to_lanes_kernel<kTargetIsa>(const RowsToLanes& call) {
  HWY_NAMESPACE::pack(call);
}

template <>
void lanes_to_rows_kernel<kTargetIsa>(const LanesToRows& call) {
  HWY_NAMESPACE::unpack(call);
}

}  // namespace heed::test
