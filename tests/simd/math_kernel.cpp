#include "heed/simd/target.h"
// The target comes first.
#include "heed/simd/math.h"
#include "tests/simd/math_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class Function>
void map(const float* in, float* out, int64_t count, Function function) {
  for (int64_t i = 0; i < count; i += kLanes) hn::StoreU(function(hn::LoadU(kFloats, in + i)), kFloats, out + i);
}

void apply(test::MathFunction function, const float* in, float* out, int64_t count) {
  switch (function) {
    case test::MathFunction::exp256:
      return map(in, out, count, [](Vector x) HWY_ATTR { return exp256(x); });
    case test::MathFunction::exp:
      return map(in, out, count, [](Vector x) HWY_ATTR { return exp(x); });
    case test::MathFunction::log:
      return map(in, out, count, [](Vector x) HWY_ATTR { return log(x); });
    case test::MathFunction::tanh:
      return map(in, out, count, [](Vector x) HWY_ATTR { return tanh(x); });
    case test::MathFunction::erf:
      return map(in, out, count, [](Vector x) HWY_ATTR { return erf(x); });
    case test::MathFunction::sigmoid:
      return map(in, out, count, [](Vector x) HWY_ATTR { return sigmoid(x); });
    case test::MathFunction::sigmoid_base256:
      return map(in, out, count, [](Vector x) HWY_ATTR { return sigmoid_base256(x); });
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed::test {

template <>
void math_kernel<kTargetIsa>(MathFunction function, const float* in, float* out, int64_t count) {
  HWY_NAMESPACE::apply(function, in, out, count);
}

}  // namespace heed::test
