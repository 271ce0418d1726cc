#include "heed/simd/target.h"
//
#include "heed/ops/activation_kernel.h"
#include "heed/ops/activation_vector.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void forward_row(Activation activation, int64_t count, const float* x, const float* residual, float* y) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector value = A::value(lanes.load(x + i));
      lanes.store(residual == nullptr ? value : hn::Add(value, lanes.load(residual + i)), y + i);
    });
  });
}

void backward_row(Activation activation, int64_t count, const float* x, const float* d_y, float* d_x, bool add) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector gradient = A::gradient(lanes.load(x + i), lanes.load(d_y + i));
      lanes.store(add ? hn::Add(lanes.load(d_x + i), gradient) : gradient, d_x + i);
    });
  });
}

void multiply_row(int64_t count, const float* derivative, const float* d_y, float* d_x, bool add) {
  for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
    const Vector gradient = multiply_by_factor(lanes.load(d_y + i), lanes.load(derivative + i));
    lanes.store(add ? hn::Add(lanes.load(d_x + i), gradient) : gradient, d_x + i);
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void activation_forward_kernel<kTargetIsa>(Activation activation, int64_t count, const float* x, const float* residual,
                                           float* y) {
  HWY_NAMESPACE::forward_row(activation, count, x, residual, y);
}

template <>
void activation_backward_kernel<kTargetIsa>(Activation activation, int64_t count, const float* x, const float* d_y,
                                            float* d_x, bool add) {
  HWY_NAMESPACE::backward_row(activation, count, x, d_y, d_x, add);
}

template <>
void derivative_backward_kernel<kTargetIsa>(int64_t count, const float* derivative, const float* d_y, float* d_x,
                                            bool add) {
  HWY_NAMESPACE::multiply_row(count, derivative, d_y, d_x, add);
}

}  // namespace heed
