#include "heed/simd/target.h"
//
#include "heed/ops/activation_vector.h"
#include "heed/ops/glu_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void forward_row(Activation activation, int64_t count, const float* a, const float* b, float* y) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      lanes.store(hn::Mul(A::value(lanes.load(a + i)), lanes.load(b + i)), y + i);
    });
  });
}

template <class Lanes>
HWY_INLINE void write_or_add(const Lanes& lanes, Vector gradient, float* to, bool add) {
  lanes.store(add ? hn::Add(lanes.load(to), gradient) : gradient, to);
}

void backward_row(Activation activation, const GluRow& row) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    for_each_vector(row.count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector a = lanes.load(row.a + i);
      const Vector b = lanes.load(row.b + i);
      const Vector d_y = lanes.load(row.d_y + i);
      if (row.d_a != nullptr) write_or_add(lanes, A::gradient(a, hn::Mul(d_y, b)), row.d_a + i, row.add_a);
      if (row.d_b != nullptr) write_or_add(lanes, hn::Mul(A::value(a), d_y), row.d_b + i, row.add_b);
    });
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void glu_forward_kernel<kTargetIsa>(Activation activation, int64_t count, const float* a, const float* b, float* y) {
  HWY_NAMESPACE::forward_row(activation, count, a, b, y);
}

template <>
void glu_backward_kernel<kTargetIsa>(Activation activation, const GluRow& row) {
  HWY_NAMESPACE::backward_row(activation, row);
}

}  // namespace heed
