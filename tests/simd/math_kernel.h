// The vector maths of heed/simd/math.h on arrays, for the tests.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed::test {

enum class MathFunction { exp256, exp, log, tanh, erf, sigmoid, sigmoid_base256 };

// Arrays come in multiples of this many floats: whole vectors on every instruction set.
inline constexpr int64_t kMathBlock = 16;

// out[i] = function(in[i]) for i < count, a multiple of kMathBlock.
template <Isa>
void math_kernel(MathFunction function, const float* in, float* out, int64_t count);

}  // namespace heed::test
