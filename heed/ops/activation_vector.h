// Activations and their gradients, vector by vector. Kernel sources only.
#pragma once

#include "heed/ops/activation.h"
#include "heed/simd/math.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// x · (1 + t) / 2
HWY_INLINE Vector half_open(Vector x, Vector t) {
  const Vector half = hn::Mul(hn::Set(kFloats, 0.5F), x);
  return hn::MulAdd(half, t, half);
}

struct Identity {
  static HWY_INLINE Vector value(Vector x) { return x; }
  static HWY_INLINE Vector gradient(Vector, Vector d_y) { return d_y; }
};

struct Relu {
  // A comparison instead of a maximum, so that NaN stays NaN.
  static HWY_INLINE Vector value(Vector x) { return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(kFloats)), x); }
  // A select instead of a product: the gradient of an inactive unit is 0 even if d_y is not finite.
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(kFloats)), d_y);
  }
};

struct Gelu {
  static HWY_INLINE Vector error_function(Vector x) { return erf(hn::Mul(x, hn::Set(kFloats, 0.707106781F))); }
  static HWY_INLINE Vector value(Vector x) { return half_open(x, error_function(x)); }
  // (Φ(x) + x φ(x)) d_y, with φ(x) = e^(-x²/2) / √(2π)
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    const Vector density =
        hn::Mul(exp(hn::Mul(hn::Mul(x, x), hn::Set(kFloats, -0.5F))), hn::Set(kFloats, 0.398942280F));
    return hn::Mul(d_y, hn::MulAdd(x, density, half_open(hn::Set(kFloats, 1.0F), error_function(x))));
  }
};

struct GeluTanh {
  static constexpr float kRoot = 0.797884561F;  // √(2/π)
  // tanh(√(2/π) · (x + 0.044715 x³)), given x²
  static HWY_INLINE Vector inner(Vector x, Vector square) {
    const Vector factor = hn::MulAdd(square, hn::Set(kFloats, kRoot * 0.044715F), hn::Set(kFloats, kRoot));
    return tanh(hn::Mul(x, factor));
  }
  static HWY_INLINE Vector value(Vector x) { return half_open(x, inner(x, hn::Mul(x, x))); }
  // ((1 + t) / 2 + x / 2 · (1 - t²) · √(2/π) · (1 + 3 · 0.044715 x²)) d_y
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    const Vector one = hn::Set(kFloats, 1.0F);
    const Vector square = hn::Mul(x, x);
    const Vector t = inner(x, square);
    // For x² this large, 1 - t² is 0: bounded to avoid 0 · ∞.
    const Vector bounded = hn::Min(square, hn::Set(kFloats, 1e12F));
    const Vector derivative = hn::MulAdd(bounded, hn::Set(kFloats, 3.0F * kRoot * 0.044715F), hn::Set(kFloats, kRoot));
    const Vector rest = hn::Mul(hn::Mul(hn::Set(kFloats, 0.5F), x), hn::NegMulAdd(t, t, one));
    return hn::Mul(d_y, hn::MulAdd(rest, derivative, half_open(one, t)));
  }
};

struct Silu {
  static HWY_INLINE Vector value(Vector x) { return hn::Mul(x, sigmoid(x)); }
  // (s + x s (1 - s)) d_y; 1 - s as sigmoid(-x), which is accurate for s near 1
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    const Vector s = sigmoid(x);
    return hn::Mul(d_y, hn::MulAdd(hn::Mul(x, s), sigmoid(hn::Neg(x)), s));
  }
};

struct Tanh {
  static HWY_INLINE Vector value(Vector x) { return tanh(x); }
  // (1 - t²) d_y
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    const Vector t = tanh(x);
    return hn::Mul(d_y, hn::NegMulAdd(t, t, hn::Set(kFloats, 1.0F)));
  }
};

struct Sigmoid {
  static HWY_INLINE Vector value(Vector x) { return sigmoid(x); }
  // s (1 - s) d_y; 1 - s as in Silu
  static HWY_INLINE Vector gradient(Vector x, Vector d_y) {
    return hn::Mul(d_y, hn::Mul(sigmoid(x), sigmoid(hn::Neg(x))));
  }
};

// x · factor, where the factor is a derivative kept by forward: 0 where it is 0, even if x is not finite.
HWY_INLINE Vector multiply_by_factor(Vector x, Vector factor) {
  return hn::IfThenZeroElse(hn::Eq(factor, hn::Zero(kFloats)), hn::Mul(x, factor));
}

// Calls f.operator()<A>() with the struct A of the activation.
template <class F>
HWY_INLINE void with_activation(Activation activation, F f) {
  switch (activation) {
    case Activation::none:
      return f.template operator()<Identity>();
    case Activation::relu:
      return f.template operator()<Relu>();
    case Activation::gelu:
      return f.template operator()<Gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<GeluTanh>();
    case Activation::silu:
      return f.template operator()<Silu>();
    case Activation::tanh:
      return f.template operator()<Tanh>();
    case Activation::sigmoid:
      return f.template operator()<Sigmoid>();
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
