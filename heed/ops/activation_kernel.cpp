#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/activation_kernel.h"
#include "heed/ops/activation_vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// y[i] = f(a[i], b[i], y[i]). The last elements go through a vector too: the same arithmetic, so the same bits. A null
// b reads as 0.
template <class F>
HWY_INLINE void transform_row(int64_t count, const float* a, const float* b, float* y, F f) {
  const auto load = [](const float* from, int64_t i)
                        HWY_ATTR { return from == nullptr ? hn::Zero(kFloats) : hn::LoadU(kFloats, from + i); };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(f(load(a, i), load(b, i), load(y, i)), kFloats, y + i);
  if (i == count) return;
  HWY_ALIGN float tail[3][kLanes] = {};
  const float* const from[3] = {a, b, y};
  for (int n = 0; n < 3; ++n) {
    if (from[n] != nullptr) std::copy(from[n] + i, from[n] + count, tail[n]);
  }
  HWY_ALIGN float result[kLanes];
  hn::Store(f(hn::Load(kFloats, tail[0]), hn::Load(kFloats, tail[1]), hn::Load(kFloats, tail[2])), kFloats, result);
  std::copy(result, result + (count - i), y + i);
}

void forward_row(Activation activation, int64_t count, const float* x, const float* residual, float* y) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    if (residual == nullptr) {
      transform_row(count, x, nullptr, y, [](Vector in, Vector, Vector) HWY_ATTR { return A::value(in); });
    } else {
      transform_row(count, x, residual, y,
                    [](Vector in, Vector added, Vector) HWY_ATTR { return hn::Add(A::value(in), added); });
    }
  });
}

void backward_row(Activation activation, int64_t count, const float* x, const float* d_y, float* d_x, bool add) {
  with_activation(activation, [&]<class A>() HWY_ATTR {
    if (add) {
      transform_row(count, x, d_y, d_x, [](Vector in, Vector d_out, Vector before) HWY_ATTR {
        return hn::Add(before, A::gradient(in, d_out));
      });
    } else {
      transform_row(count, x, d_y, d_x,
                    [](Vector in, Vector d_out, Vector) HWY_ATTR { return A::gradient(in, d_out); });
    }
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

}  // namespace heed
