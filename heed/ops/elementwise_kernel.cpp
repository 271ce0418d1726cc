#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/elementwise_kernel.h"
#include "heed/ops/staged_row.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

template <RowOp op>
HWY_INLINE Vector apply(Vector a, Vector b, Vector y) {
  if constexpr (op == RowOp::add) return hn::Add(a, b);
  if constexpr (op == RowOp::sub) return hn::Sub(a, b);
  if constexpr (op == RowOp::mul) return hn::Mul(a, b);
  return hn::MulAdd(a, b, y);
}

template <RowOp op>
HWY_INLINE void contiguous_row(int64_t count, const float* a, const float* b, float* y) {
  for_each_vector(count, [=](auto part, int64_t i) HWY_ATTR {
    const Vector before = op == RowOp::multiply_add ? part.load(y + i) : hn::Zero(kFloats);
    part.store(apply<op>(part.load(a + i), part.load(b + i), before), y + i);
  });
}

// Rows that are not contiguous go through small buffers: one loop for all strides.
template <RowOp op>
void strided_row(int64_t count, StridedRow<const float> a, StridedRow<const float> b, StridedRow<float> y) {
  if (a.step == 1 && b.step == 1 && y.step == 1) return contiguous_row<op>(count, a.data, b.data, y.data);
  StagedRow a_stage(a.data, a.step);
  StagedRow b_stage(b.data, b.step);
  StagedRow y_stage(y.data, y.step);
  HWY_ALIGN float result[kStagedElements];
  for (int64_t i = 0; i < count; i += kStagedElements) {
    const int64_t n = std::min(kStagedElements, count - i);
    const float* const a_part = a_stage.elements(i, n);
    const float* const b_part = b_stage.elements(i, n);
    if (y.step == 1) {
      contiguous_row<op>(n, a_part, b_part, y.data + i);
      continue;
    }
    if (op == RowOp::multiply_add) std::copy_n(y_stage.elements(i, n), n, result);
    contiguous_row<op>(n, a_part, b_part, result);
    for (int64_t j = 0; j < n; ++j) y.data[(i + j) * y.step] = result[j];
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void elementwise_kernel<kTargetIsa>(RowOp op, int64_t count, StridedRow<const float> a, StridedRow<const float> b,
                                    StridedRow<float> y) {
  switch (op) {
    case RowOp::add:
      return HWY_NAMESPACE::strided_row<RowOp::add>(count, a, b, y);
    case RowOp::sub:
      return HWY_NAMESPACE::strided_row<RowOp::sub>(count, a, b, y);
    case RowOp::mul:
      return HWY_NAMESPACE::strided_row<RowOp::mul>(count, a, b, y);
    case RowOp::multiply_add:
      return HWY_NAMESPACE::strided_row<RowOp::multiply_add>(count, a, b, y);
  }
}

}  // namespace heed
