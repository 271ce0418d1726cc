// The vector of floats that all kernels compute with. Kernel sources only (heed/simd/target.h).
#pragma once

#include "heed/simd/target.h"

// Only types and constants, which need no target attribute: without functions, clang rejects Highway's attributes.
namespace heed::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using Vector = hn::Vec<FloatTag>;
inline constexpr FloatTag kFloats{};
inline constexpr int kLanes = HWY_LANES(float);

}  // namespace heed::HWY_NAMESPACE
