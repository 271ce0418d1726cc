#include "heed/simd/target.h"
//
#include "heed/ops/element_loss_kernel.h"
#include "heed/simd/double_sum.h"
#include "heed/simd/math.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// A vector of each of a loss's operands.
struct Elements {
  Vector x, target, weight, pos_weight;
};

struct Kl {
  // At a target of 0, where log is -∞: 0, and NaN if x is not finite, as in PyTorch.
  static HWY_INLINE Vector value(const Elements& e) {
    const Vector at_zero = hn::Neg(hn::Mul(e.target, e.x));
    const Vector elsewhere = hn::Mul(e.target, hn::Sub(log(e.target), e.x));
    return hn::IfThenElse(hn::Eq(e.target, hn::Zero(kFloats)), at_zero, elsewhere);
  }
  static HWY_INLINE Vector gradient(const Elements& e) { return hn::Neg(e.target); }
};

struct KlLogTarget {
  static HWY_INLINE Vector value(const Elements& e) { return hn::Mul(exp(e.target), hn::Sub(e.target, e.x)); }
  static HWY_INLINE Vector gradient(const Elements& e) { return hn::Neg(exp(e.target)); }
};

// softplus(±x) = max(±x, 0) + log(1 + e^-|x|): the two parts of the loss have no term that cancels.
struct BinaryCrossEntropy {
  // log(1 + u) for u in [0, 1]: the logarithm of the rounded sum, and what was rounded away.
  static HWY_INLINE Vector log_one_plus(Vector u) {
    const Vector one = hn::Set(kFloats, 1.0F);
    const Vector sum = hn::Add(one, u);
    return hn::Add(log(sum), hn::Div(hn::Sub(u, hn::Sub(sum, one)), sum));
  }
  static HWY_INLINE Vector positive_part(const Elements& e) { return hn::Mul(e.pos_weight, e.target); }
  static HWY_INLINE Vector negative_part(const Elements& e) { return hn::Sub(hn::Set(kFloats, 1.0F), e.target); }

  static HWY_INLINE Vector value(const Elements& e) {
    const Vector zero = hn::Zero(kFloats);
    const Vector rest = log_one_plus(exp(hn::Neg(hn::Abs(e.x))));
    const Vector of_negative = hn::Add(hn::Max(hn::Neg(e.x), zero), rest);  // softplus(-x); NaN comes from `rest`
    const Vector of_positive = hn::Add(hn::Max(e.x, zero), rest);
    const Vector both = hn::MulAdd(positive_part(e), of_negative, hn::Mul(negative_part(e), of_positive));
    return hn::Mul(e.weight, both);
  }
  static HWY_INLINE Vector gradient(const Elements& e) {
    const Vector down = hn::Mul(positive_part(e), sigmoid(hn::Neg(e.x)));
    return hn::Mul(e.weight, hn::MulSub(negative_part(e), sigmoid(e.x), down));
  }
};

struct SquaredError {
  static HWY_INLINE Vector value(const Elements& e) {
    const Vector error = hn::Sub(e.x, e.target);
    return hn::Mul(error, error);
  }
  static HWY_INLINE Vector gradient(const Elements& e) {
    const Vector error = hn::Sub(e.x, e.target);
    return hn::Add(error, error);
  }
};

// Calls f.operator()<L>() with the struct L of the loss.
template <class F>
HWY_INLINE void with_loss(ElementLoss loss, F f) {
  switch (loss) {
    case ElementLoss::kl:
      return f.template operator()<Kl>();
    case ElementLoss::kl_log_target:
      return f.template operator()<KlLogTarget>();
    case ElementLoss::binary_cross_entropy:
      return f.template operator()<BinaryCrossEntropy>();
    case ElementLoss::squared_error:
      return f.template operator()<SquaredError>();
  }
}

template <class Lanes>
HWY_INLINE Vector load_or_one(Lanes lanes, const float* from, int64_t i) {
  return from == nullptr ? hn::Set(kFloats, 1.0F) : lanes.load(from + i);
}

template <class Lanes>
HWY_INLINE Elements load_elements(Lanes lanes, const ElementLossRow& row, int64_t i) {
  return {lanes.load(row.x + i), lanes.load(row.target + i), load_or_one(lanes, row.weight, i),
          load_or_one(lanes, row.pos_weight, i)};
}

double forward_row(ElementLoss loss, const ElementLossRow& row, float* losses) {
  DoubleSum sum;
  with_loss(loss, [&]<class L>() HWY_ATTR {
    for_each_vector(row.count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector value = L::value(load_elements(lanes, row, i));
      if (losses != nullptr) lanes.store(value, losses + i);
      sum.add(lanes.keep(value));
    });
  });
  return sum.total();
}

void backward_row(ElementLoss loss, const ElementLossRow& row, const ElementLossGradient& to) {
  const Vector scale = hn::Set(kFloats, to.scale);
  with_loss(loss, [&]<class L>() HWY_ATTR {
    for_each_vector(row.count, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector slope = L::gradient(load_elements(lanes, row, i));
      const Vector result = hn::Mul(slope, hn::Mul(scale, load_or_one(lanes, to.d_loss, i)));
      lanes.store(to.add ? hn::Add(lanes.load(to.d_x + i), result) : result, to.d_x + i);
    });
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
double element_loss_kernel<kTargetIsa>(ElementLoss loss, const ElementLossRow& row, float* losses) {
  return HWY_NAMESPACE::forward_row(loss, row, losses);
}

template <>
void element_loss_gradient_kernel<kTargetIsa>(ElementLoss loss, const ElementLossRow& row,
                                              const ElementLossGradient& gradient) {
  HWY_NAMESPACE::backward_row(loss, row, gradient);
}

}  // namespace heed
