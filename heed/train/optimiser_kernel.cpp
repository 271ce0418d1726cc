#include "heed/simd/target.h"
//
#include <algorithm>
#include <limits>

#include "heed/simd/vector.h"
#include "heed/train/optimiser_kernel.h"
#include "heed/train/slab_layout.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

static_assert(kSlabUnit % kLanes == 0, "parts of a slab are whole vectors");

// g, scaled, plus the weight decay of SGD and Adam.
HWY_INLINE Vector coupled_gradient(const float* g, float scale, Vector value, float weight_decay) {
  const Vector scaled = hn::Mul(hn::Load(kFloats, g), hn::Set(kFloats, scale));
  return hn::MulAdd(hn::Set(kFloats, weight_decay), value, scaled);
}

// Denormals become 0; NaN stays. A moment that only decays, as that of an embedding row whose token no longer occurs,
// would otherwise end as a denormal that rounding keeps forever, and every step would pay for its slow arithmetic.
HWY_INLINE Vector without_denormals(Vector x) {
  const Vector least = hn::Set(kFloats, std::numeric_limits<float>::min());
  return hn::IfThenZeroElse(hn::Lt(hn::Abs(x), least), x);
}

// d = g + decay · p;   b = momentum · b + gain · d;   p -= lr · (d + momentum · b with Nesterov, else b)
template <bool has_momentum, bool nesterov>
void sgd_part(const SgdCoefficients& c, const SlabPart& part) {
  const Vector momentum = hn::Set(kFloats, c.momentum);
  for (int64_t i = 0; i < part.count; i += kLanes) {
    const Vector value = hn::Load(kFloats, part.values + i);
    const Vector gradient = coupled_gradient(part.gradients + i, c.gradient_scale, value, c.weight_decay);
    Vector direction = gradient;
    if constexpr (has_momentum) {
      const Vector kept = hn::Mul(momentum, hn::Load(kFloats, part.first + i));
      const Vector buffer = without_denormals(hn::MulAdd(hn::Set(kFloats, c.gain), gradient, kept));
      hn::Store(buffer, kFloats, part.first + i);
      direction = nesterov ? hn::MulAdd(momentum, buffer, gradient) : buffer;
    }
    hn::Store(hn::NegMulAdd(hn::Set(kFloats, c.lr), direction, value), kFloats, part.values + i);
    hn::Store(hn::Zero(kFloats), kFloats, part.gradients + i);
  }
}

// m += (1 - beta1) · (g - m);   v = beta2 · v + (1 - beta2) · g²
// p = kept · p - step_size · m / (root_scale · √v + eps)
template <bool coupled>
void adam_part(const AdamCoefficients& c, const SlabPart& part) {
  for (int64_t i = 0; i < part.count; i += kLanes) {
    Vector value = hn::Load(kFloats, part.values + i);
    Vector gradient;
    if constexpr (coupled) {
      gradient = coupled_gradient(part.gradients + i, c.gradient_scale, value, c.coupled_decay);
    } else {
      gradient = hn::Mul(hn::Load(kFloats, part.gradients + i), hn::Set(kFloats, c.gradient_scale));
      value = hn::Mul(value, hn::Set(kFloats, c.kept));
    }
    Vector first = hn::Load(kFloats, part.first + i);
    first = without_denormals(hn::MulAdd(hn::Set(kFloats, c.first_gain), hn::Sub(gradient, first), first));
    const Vector kept = hn::Mul(hn::Set(kFloats, c.beta2), hn::Load(kFloats, part.second + i));
    const Vector second =
        without_denormals(hn::MulAdd(hn::Mul(hn::Set(kFloats, c.second_gain), gradient), gradient, kept));
    const Vector root = hn::MulAdd(hn::Sqrt(second), hn::Set(kFloats, c.root_scale), hn::Set(kFloats, c.eps));
    value = hn::NegMulAdd(hn::Set(kFloats, c.step_size), hn::Div(first, root), value);
    hn::Store(first, kFloats, part.first + i);
    hn::Store(second, kFloats, part.second + i);
    hn::Store(value, kFloats, part.values + i);
    hn::Store(hn::Zero(kFloats), kFloats, part.gradients + i);
  }
}

double sum_of_squares(const float* x, int64_t count) {
  using DoubleTag = hn::Repartition<double, FloatTag>;
  constexpr DoubleTag kDoubles{};
  constexpr hn::Rebind<float, DoubleTag> kHalf{};
  constexpr int kDoubleLanes = kLanes / 2;
  constexpr int kVectors = static_cast<int>(kSlabUnit) / kDoubleLanes;
  hn::Vec<DoubleTag> chains[kVectors];
  for (auto& chain : chains) chain = hn::Zero(kDoubles);
  for (int64_t i = 0; i < count; i += kSlabUnit) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      const auto wide = hn::PromoteTo(kDoubles, hn::Load(kHalf, x + i + v * kDoubleLanes));
      chains[v] = hn::MulAdd(wide, wide, chains[v]);
    }
  }
  HWY_ALIGN double sums[kSlabUnit];
  for (int v = 0; v < kVectors; ++v) hn::Store(chains[v], kDoubles, sums + v * kDoubleLanes);
  for (int64_t width = kSlabUnit / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) sums[i] += sums[i + width];
  }
  return sums[0];
}

void update_average(int64_t count, float gain, const float* values, float* average) {
  const Vector factor = hn::Set(kFloats, gain);
  const auto averaged = [factor](Vector value, Vector before)
                            HWY_ATTR { return hn::MulAdd(factor, hn::Sub(value, before), before); };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(averaged(hn::LoadU(kFloats, values + i), hn::LoadU(kFloats, average + i)), kFloats, average + i);
  }
  if (i == count) return;
  // The last elements go through a vector too: the same arithmetic, so the same bits.
  HWY_ALIGN float tail[2][kLanes] = {};
  std::copy(values + i, values + count, tail[0]);
  std::copy(average + i, average + count, tail[1]);
  hn::Store(averaged(hn::Load(kFloats, tail[0]), hn::Load(kFloats, tail[1])), kFloats, tail[1]);
  std::copy_n(tail[1], count - i, average + i);
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void sgd_kernel<kTargetIsa>(const SgdCoefficients& coefficients, const SlabPart& part) {
  if (part.first == nullptr) {
    HWY_NAMESPACE::sgd_part<false, false>(coefficients, part);
  } else if (coefficients.nesterov) {
    HWY_NAMESPACE::sgd_part<true, true>(coefficients, part);
  } else {
    HWY_NAMESPACE::sgd_part<true, false>(coefficients, part);
  }
}

template <>
void adam_kernel<kTargetIsa>(const AdamCoefficients& coefficients, const SlabPart& part) {
  if (coefficients.coupled) {
    HWY_NAMESPACE::adam_part<true>(coefficients, part);
  } else {
    HWY_NAMESPACE::adam_part<false>(coefficients, part);
  }
}

template <>
double sum_of_squares_kernel<kTargetIsa>(const float* x, int64_t count) {
  return HWY_NAMESPACE::sum_of_squares(x, count);
}

template <>
void average_kernel<kTargetIsa>(int64_t count, float gain, const float* values, float* average) {
  HWY_NAMESPACE::update_average(count, gain, values, average);
}

}  // namespace heed
