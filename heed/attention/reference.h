// Attention in plain maths, on any scalar type: float, double, or complex for gradient checks by complex step. It is
// the oracle of the tests and the explanation for readers; nothing here is fast. Forward and backward mirror each
// other, step by step, with the names of the steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "heed/attention/mask.h"
#include "heed/core/view.h"

namespace heed::reference {

// Comparing complex numbers means comparing their real parts: the imaginary part only carries a derivative.
inline double real_part(double x) { return x; }
inline double real_part(const std::complex<double>& x) { return x.real(); }

template <class T>
struct Inputs {
  View<const T, 4> q;  // [B, Tq, H, Dk]
  View<const T, 4> k;  // [B, Tk, Hkv, Dk]
  View<const T, 4> v;  // [B, Tk, Hkv, Dv]
  Mask mask;
  T scale{};

  MaskSizes sizes() const { return {q.size(0), q.size(2), q.size(1), k.size(1)}; }
  int64_t kv_head(int64_t head) const { return head / (q.size(2) / k.size(2)); }
};

// One row of the score matrix, from scores to weights. Hidden keys have weight 0; a row of hidden keys has no other.
template <class T>
struct Row {
  std::vector<T> weights;     // [Tk]
  std::vector<bool> visible;  // [Tk]
  T log_sum_exp{};            // -∞ when no key is visible
};

template <class T>
Row<T> softmax_row(const Inputs<T>& in, int64_t b, int64_t head, int64_t i) {
  const int64_t t_k = in.k.size(1);
  Row<T> row{std::vector<T>(static_cast<size_t>(t_k)), std::vector<bool>(static_cast<size_t>(t_k)), T{}};
  double most = -std::numeric_limits<double>::infinity();
  std::vector<T> scaled(static_cast<size_t>(t_k));
  for (int64_t j = 0; j < t_k; ++j) {
    const auto at = static_cast<size_t>(j);
    row.visible[at] = in.mask.visible(in.sizes(), b, head, i, j);
    if (!row.visible[at]) continue;
    T score{};  // scores = q kᵀ
    for (int64_t d = 0; d < in.q.size(3); ++d) score += in.q(b, i, head, d) * in.k(b, j, in.kv_head(head), d);
    scaled[at] = in.scale * score;  // scaled
    most = std::max(most, static_cast<double>(real_part(scaled[at])));
  }
  T sum{};
  for (size_t j = 0; j < scaled.size(); ++j) {
    if (!row.visible[j]) continue;  // masked: -∞, so weight 0
    row.weights[j] = std::exp(scaled[j] - static_cast<T>(most));
    sum += row.weights[j];
  }
  for (size_t j = 0; j < scaled.size(); ++j) {
    if (row.visible[j]) row.weights[j] /= sum;
  }
  row.log_sum_exp = static_cast<T>(most) + std::log(sum);
  return row;
}

// heads = weights · v → out [B, Tq, H, Dv]; log_sum_exp [B, H, Tq] where its view is not null.
template <class T>
void forward(const Inputs<T>& in, View<T, 4> out, View<T, 3> log_sum_exp = {}) {
  const MaskSizes sizes = in.sizes();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t head = 0; head < sizes.heads; ++head) {
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        const Row<T> row = softmax_row(in, b, head, i);
        if (log_sum_exp.data() != nullptr) log_sum_exp(b, head, i) = row.log_sum_exp;
        for (int64_t d = 0; d < in.v.size(3); ++d) {
          T sum{};
          for (int64_t j = 0; j < sizes.t_k; ++j) {
            const auto at = static_cast<size_t>(j);
            if (row.visible[at]) sum += row.weights[at] * in.v(b, j, in.kv_head(head), d);
          }
          out(b, i, head, d) = sum;
        }
      }
    }
  }
}

template <class T>
struct Gradients {
  View<T, 4> d_q;  // as q, k and v
  View<T, 4> d_k;
  View<T, 4> d_v;
};

// Given d_out [B, Tq, H, Dv], adds to gradients that the caller has set to 0. Query heads of a group add up in the
// key/value head that they share.
template <class T>
void backward(const Inputs<T>& in, View<const T, 4> d_out, const Gradients<T>& gradients) {
  const MaskSizes sizes = in.sizes();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t head = 0; head < sizes.heads; ++head) {
      const int64_t kv = in.kv_head(head);
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        const Row<T> row = softmax_row(in, b, head, i);
        std::vector<T> d_weights(static_cast<size_t>(sizes.t_k));
        T weighted{};  // Σ_j weights · d_weights
        for (int64_t j = 0; j < sizes.t_k; ++j) {
          const auto at = static_cast<size_t>(j);
          if (!row.visible[at]) continue;
          for (int64_t d = 0; d < in.v.size(3); ++d) {
            // heads = weights · v
            d_weights[at] += d_out(b, i, head, d) * in.v(b, j, kv, d);
            gradients.d_v(b, j, kv, d) += row.weights[at] * d_out(b, i, head, d);
          }
          weighted += row.weights[at] * d_weights[at];
        }
        for (int64_t j = 0; j < sizes.t_k; ++j) {
          const auto at = static_cast<size_t>(j);
          if (!row.visible[at]) continue;
          // weights = softmax(scaled), scaled = scale · q kᵀ
          const T d_score = in.scale * row.weights[at] * (d_weights[at] - weighted);
          for (int64_t d = 0; d < in.q.size(3); ++d) {
            gradients.d_q(b, i, head, d) += d_score * in.k(b, j, kv, d);
            gradients.d_k(b, j, kv, d) += d_score * in.q(b, i, head, d);
          }
        }
      }
    }
  }
}

}  // namespace heed::reference
