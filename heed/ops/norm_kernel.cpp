#include "heed/simd/target.h"
//
#include "heed/ops/norm_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Row r of an optional matrix, or null.
template <class T>
HWY_INLINE T* row_of(const View<T, 2>& matrix, int64_t r) {
  return matrix.data() == nullptr ? nullptr : &matrix(r, 0);
}

// A vector of an optional parameter.
template <class Lanes>
HWY_INLINE Vector load_or(const Lanes& lanes, const float* values, int64_t i, float otherwise) {
  return values == nullptr ? hn::Set(kFloats, otherwise) : lanes.load(values + i);
}

// Σ (s - shift) over a row, with s = x + residual written to `sum`; without a residual, s = x and nothing is written.
HWY_INLINE Vector add_and_sum(int64_t width, const float* x, const float* residual, float* sum, Vector shift) {
  Vector total[1];
  if (residual == nullptr) {
    sum_row<1>(width, total, [&](auto lanes, int64_t i, Vector* chain) HWY_ATTR {
      chain[0] = hn::Add(chain[0], lanes.keep(hn::Sub(lanes.load(x + i), shift)));
    });
  } else {
    sum_row<1>(width, total, [&](auto lanes, int64_t i, Vector* chain) HWY_ATTR {
      const Vector s = hn::Add(lanes.load(x + i), lanes.load(residual + i));
      lanes.store(s, sum + i);
      chain[0] = hn::Add(chain[0], lanes.keep(hn::Sub(s, shift)));
    });
  }
  return total[0];
}

// Σ (s - mean)²
HWY_INLINE Vector sum_squares(int64_t width, const float* s, Vector mean) {
  Vector total[1];
  sum_row<1>(width, total, [&](auto lanes, int64_t i, Vector* chain) HWY_ATTR {
    const Vector deviation = lanes.keep(hn::Sub(lanes.load(s + i), mean));
    chain[0] = hn::MulAdd(deviation, deviation, chain[0]);
  });
  return total[0];
}

void forward_rows(const NormForwardCall& call, int64_t begin, int64_t end) {
  const auto& [inputs, outputs, kind, eps] = call;
  const int64_t width = inputs.x.size(1);
  const float* const gamma = inputs.gamma.data();
  const float* const beta = inputs.beta.data();
  const Vector count = hn::Set(kFloats, static_cast<float>(width));
  const Vector one = hn::Set(kFloats, 1.0F);
  for (int64_t r = begin; r < end; ++r) {
    const float* const x = &inputs.x(r, 0);
    const float* const residual = row_of(inputs.residual, r);
    float* const y = &outputs.y(r, 0);
    // s is kept where the caller wants it, or in the row of y until y is computed.
    float* const kept = outputs.sum.data() != nullptr ? &outputs.sum(r, 0) : y;
    const float* const s = residual == nullptr ? x : kept;
    Vector mean = hn::Zero(kFloats);
    if (kind == NormKind::layer) {
      const Vector shift = hn::Set(kFloats, residual == nullptr ? x[0] : x[0] + residual[0]);
      mean = hn::Add(shift, hn::Div(add_and_sum(width, x, residual, kept, shift), count));
    } else if (residual != nullptr) {
      add_and_sum(width, x, residual, kept, mean);
    }
    const Vector variance = hn::Div(sum_squares(width, s, mean), count);
    const Vector rstd = hn::Div(one, hn::Sqrt(hn::Add(variance, hn::Set(kFloats, eps))));
    for_each_vector(width, [&](auto lanes, int64_t i) HWY_ATTR {
      const Vector normed = hn::Mul(hn::Sub(lanes.load(s + i), mean), rstd);
      lanes.store(hn::MulAdd(normed, load_or(lanes, gamma, i, 1.0F), load_or(lanes, beta, i, 0.0F)), y + i);
    });
    if (outputs.mean.data() != nullptr) outputs.mean(r) = hn::GetLane(mean);
    if (outputs.rstd.data() != nullptr) outputs.rstd(r) = hn::GetLane(rstd);
  }
}

// What a row of backward reads: x̂ and g, vector by vector.
struct BackwardRow {
  const float* s;
  const float* d_y;
  const float* gamma;
  Vector mean;
  Vector rstd;

  template <class Lanes>
  HWY_INLINE Vector normed(const Lanes& lanes, int64_t i) const {
    return hn::Mul(hn::Sub(lanes.load(s + i), mean), rstd);
  }
  template <class Lanes>
  HWY_INLINE Vector scaled(const Lanes& lanes, int64_t i, Vector d_y_i) const {
    return gamma == nullptr ? d_y_i : hn::Mul(d_y_i, lanes.load(gamma + i));
  }
};

// means[0] = Σ g / C and means[1] = Σ (g ∘ x̂) / C; adds the row to the sums of gamma and beta.
HWY_INLINE void sum_gradients(const BackwardRow& row, int64_t width, float* d_gamma, float* d_beta,
                              Vector (&means)[2]) {
  sum_row<2>(width, means, [&](auto lanes, int64_t i, Vector* chain) HWY_ATTR {
    const Vector d_y = lanes.load(row.d_y + i);
    const Vector normed = row.normed(lanes, i);
    // d_y and g are 0 beyond the row.
    const Vector scaled = row.scaled(lanes, i, d_y);
    chain[0] = hn::Add(chain[0], scaled);
    chain[1] = hn::MulAdd(scaled, lanes.keep(normed), chain[1]);
    if (d_gamma != nullptr) lanes.store(hn::MulAdd(d_y, normed, lanes.load(d_gamma + i)), d_gamma + i);
    if (d_beta != nullptr) lanes.store(hn::Add(lanes.load(d_beta + i), d_y), d_beta + i);
  });
  const Vector count = hn::Set(kFloats, static_cast<float>(width));
  for (Vector& mean : means) mean = hn::Div(mean, count);
}

// The gradients of x and the residual.
HWY_INLINE void write_gradients(const BackwardRow& row, const NormBackwardCall& call, int64_t r, Vector (&means)[2]) {
  const InputGradient<2>& to_x = call.gradients.x;
  const InputGradient<2>& to_residual = call.gradients.residual;
  const float* const d_sum = row_of(call.d_sum, r);
  float* const d_x = row_of(to_x.view, r);
  float* const d_residual = row_of(to_residual.view, r);
  const Vector mean_g = call.saved.kind == NormKind::layer ? means[0] : hn::Zero(kFloats);
  for_each_vector(call.d_y.size(1), [&](auto lanes, int64_t i) HWY_ATTR {
    const Vector scaled = row.scaled(lanes, i, lanes.load(row.d_y + i));
    const Vector along = hn::NegMulAdd(row.normed(lanes, i), means[1], hn::Sub(scaled, mean_g));
    const Vector gradient =
        d_sum == nullptr ? hn::Mul(along, row.rstd) : hn::MulAdd(along, row.rstd, lanes.load(d_sum + i));
    if (d_x != nullptr) lanes.store(to_x.add ? hn::Add(lanes.load(d_x + i), gradient) : gradient, d_x + i);
    if (d_residual != nullptr) {
      lanes.store(to_residual.add ? hn::Add(lanes.load(d_residual + i), gradient) : gradient, d_residual + i);
    }
  });
}

void backward_rows(const NormBackwardCall& call, int64_t begin, int64_t end, float* d_gamma, float* d_beta) {
  const NormSaved& saved = call.saved;
  const bool inputs = call.gradients.x.view.data() != nullptr || call.gradients.residual.view.data() != nullptr;
  for (int64_t r = begin; r < end; ++r) {
    const Vector mean = saved.kind == NormKind::layer ? hn::Set(kFloats, saved.mean(r)) : hn::Zero(kFloats);
    const BackwardRow row{&saved.s(r, 0), &call.d_y(r, 0), saved.gamma.data(), mean, hn::Set(kFloats, saved.rstd(r))};
    Vector means[2];
    sum_gradients(row, call.d_y.size(1), d_gamma, d_beta, means);
    if (inputs) write_gradients(row, call, r, means);
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void norm_forward_kernel<kTargetIsa>(const NormForwardCall& call, int64_t begin, int64_t end) {
  HWY_NAMESPACE::forward_rows(call, begin, end);
}

template <>
void norm_backward_kernel<kTargetIsa>(const NormBackwardCall& call, int64_t begin, int64_t end, float* d_gamma,
                                      float* d_beta) {
  HWY_NAMESPACE::backward_rows(call, begin, end, d_gamma, d_beta);
}

}  // namespace heed
