// Attention in plain loops, for any scalar type: float, double, or complex for gradient checks by complex step. It is
// the oracle of the tests and an explanation for readers; nothing here is fast. Forward and backward mirror each other
// step by step, using the names of the steps. reference_row.h has the maths of one row.
#pragma once

#include <vector>

#include "heed/attention/reference_row.h"

namespace heed::reference {

// heads = dropped · v → out [B, Tq, H, Dv]; log_sum_exp [B, H, Tq] if its view is not null.
template <class T>
void forward(const Inputs<T>& in, View<T, 4> out, View<T, 3> log_sum_exp = {}) {
  const MaskSizes sizes = in.sizes();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t head = 0; head < sizes.heads; ++head) {
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        const Row<T> row = score_row(in, b, head, i);
        if (log_sum_exp.data() != nullptr) log_sum_exp(b, head, i) = row.log_sum_exp;
        for (int64_t d = 0; d < in.v.size(3); ++d) {
          T sum{};
          for (int64_t j = 0; j < sizes.t_k; ++j) {
            const auto at = static_cast<size_t>(j);
            if (row.visible[at]) sum += row.weights[at] * row.kept[at] * in.v(b, j, in.kv_head(head), d);
          }
          out(b, i, head, d) = sum;
        }
      }
    }
  }
}

template <class T>
struct Gradients {
  View<T, 4> d_q{};  // shapes as q, k and v
  View<T, 4> d_k{};
  View<T, 4> d_v{};
  ScoreParameters<T> scores{};  // null views are not computed
};

// Given d_out [B, Tq, H, Dv], adds to gradients that the caller has set to 0. The query heads of a group are summed in
// their shared key/value head.
template <class T>
void backward(const Inputs<T>& in, View<const T, 4> d_out, const Gradients<T>& gradients) {
  const MaskSizes sizes = in.sizes();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t head = 0; head < sizes.heads; ++head) {
      const int64_t kv = in.kv_head(head);
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        const Row<T> row = score_row(in, b, head, i);
        std::vector<T> d_weights(static_cast<size_t>(sizes.t_k));
        for (int64_t j = 0; j < sizes.t_k; ++j) {
          const auto at = static_cast<size_t>(j);
          if (!row.visible[at]) continue;
          for (int64_t d = 0; d < in.v.size(3); ++d) {
            // heads = dropped · v, dropped = kept · weights
            d_weights[at] += row.kept[at] * d_out(b, i, head, d) * in.v(b, j, kv, d);
            gradients.d_v(b, j, kv, d) += row.weights[at] * row.kept[at] * d_out(b, i, head, d);
          }
        }
        const std::vector<T> d_scaled = score_row_backward(in, row, d_weights, gradients.scores);
        for (int64_t j = 0; j < sizes.t_k; ++j) {
          const auto at = static_cast<size_t>(j);
          if (!row.visible[at]) continue;
          const T d_score = in.scale * d_scaled[at];  // scaled = scale · q kᵀ
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
