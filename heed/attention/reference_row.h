// One row of attention in plain loops, from scores to dropped weights, forward and backward. See reference.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "heed/attention/dropout.h"
#include "heed/attention/mask.h"
#include "heed/attention/score_options.h"
#include "heed/core/view.h"

namespace heed::reference {

// Comparing complex numbers means comparing their real parts: the imaginary part only carries a derivative.
inline double real_part(double x) { return x; }
inline double real_part(const std::complex<double>& x) { return x.real(); }

// The learned parameters of the score options, or their gradients; null views are absent. Shapes as in
// heed/attention/score_options.h.
template <class T>
struct ScoreParameters {
  View<T, 4> bias{};
  View<T, 1> alibi_slopes{};
  View<T, 2> relative_table{};
  View<T, 1> sinks{};
};

template <class T>
struct Inputs {
  View<const T, 4> q{};  // [B, Tq, H, Dk]
  View<const T, 4> k{};  // [B, Tk, Hkv, Dk]
  View<const T, 4> v{};  // [B, Tk, Hkv, Dv]
  Mask mask{};
  T scale{};
  ScoreOptions options{};                 // everything but its views
  ScoreParameters<const T> parameters{};  // the views

  MaskSizes sizes() const { return {q.size(0), q.size(2), q.size(1), k.size(1)}; }
  int64_t kv_head(int64_t head) const { return head / (q.size(2) / k.size(2)); }
  // position_k - position_q
  int64_t distance(int64_t b, int64_t i, int64_t j) const { return j - i - options.query_offset(sizes(), mask, b); }
};

// Sizes of 1 are broadcast.
template <class T>
T& bias_at(View<T, 4> bias, int64_t b, int64_t head, int64_t i, int64_t j) {
  return bias(bias.size(0) == 1 ? 0 : b, bias.size(1) == 1 ? 0 : head, i, j);
}

template <class T>
int64_t bucket_of(const Inputs<T>& in, int64_t distance) {
  const RelativeTable& relative = in.options.relative;
  return relative_bucket(distance, in.parameters.relative_table.size(0), relative.max_distance, relative.bidirectional);
}

// One row of the score matrix. Hidden keys have weight 0, so a row of hidden keys has only zeros.
template <class T>
struct Row {
  int64_t b = 0;
  int64_t head = 0;
  int64_t i = 0;              // query
  std::vector<T> capped;      // [Tk]: scores, scaled, capped
  std::vector<T> weights;     // [Tk]
  std::vector<bool> visible;  // [Tk]
  std::vector<T> kept;        // [Tk]: dropout factor of the weight, 0 or 1/(1-p)
  T sink_weight{};            // of the sink; 0 without one
  T log_sum_exp{};            // -∞ without a visible key or a sink; 0 with sigmoid, which has none
};

// biased = capped + ALiBi + relative table + dense bias
template <class T>
T biased(const Inputs<T>& in, T capped, int64_t b, int64_t head, int64_t i, int64_t j) {
  const auto& [bias, alibi_slopes, relative_table, sinks] = in.parameters;
  T score = capped;
  if (alibi_slopes.data() != nullptr) {
    score -= alibi_slopes(head) * static_cast<T>(static_cast<double>(std::abs(in.distance(b, i, j))));
  }
  if (relative_table.data() != nullptr) score += relative_table(bucket_of(in, in.distance(b, i, j)), head);
  if (bias.data() != nullptr) score += bias_at(bias, b, head, i, j);
  return score;
}

// weights = softmax over the visible scores and the sink.
template <class T>
void normalise_by_softmax(const std::vector<T>& masked, const T* sink, Row<T>& row) {
  double most = sink != nullptr ? real_part(*sink) : -std::numeric_limits<double>::infinity();
  for (size_t j = 0; j < masked.size(); ++j) {
    if (row.visible[j]) most = std::max(most, static_cast<double>(real_part(masked[j])));
  }
  T sum{};
  for (size_t j = 0; j < masked.size(); ++j) {
    if (!row.visible[j]) continue;  // masked: -∞, so weight 0
    row.weights[j] = std::exp(masked[j] - static_cast<T>(most));
    sum += row.weights[j];
  }
  if (sink != nullptr) {
    row.sink_weight = std::exp(*sink - static_cast<T>(most));
    sum += row.sink_weight;
    row.sink_weight /= sum;
  }
  for (size_t j = 0; j < masked.size(); ++j) {
    if (row.visible[j]) row.weights[j] /= sum;
  }
  row.log_sum_exp = static_cast<T>(most) + std::log(sum);
}

// The row of query i.
template <class T>
Row<T> score_row(const Inputs<T>& in, int64_t b, int64_t head, int64_t i) {
  const auto t_k = static_cast<size_t>(in.k.size(1));
  const auto& [bias, alibi_slopes, relative_table, sinks] = in.parameters;
  const Dropout& dropout = in.options.dropout;
  const DropoutRow dropout_of_row = dropout_row(dropout_head(dropout, b, head), i);
  Row<T> row{b, head, i, std::vector<T>(t_k), std::vector<T>(t_k), std::vector<bool>(t_k), std::vector<T>(t_k), {}, {}};
  std::vector<T> masked(t_k);
  for (int64_t j = 0; j < in.k.size(1); ++j) {
    const auto at = static_cast<size_t>(j);
    row.visible[at] = in.mask.visible(in.sizes(), b, head, i, j);
    if (bias.data() != nullptr) {
      const double value = real_part(bias_at(bias, b, head, i, j));
      row.visible[at] = row.visible[at] && value != -std::numeric_limits<double>::infinity();
    }
    if (!row.visible[at]) continue;
    T score{};  // scores = q kᵀ
    for (int64_t d = 0; d < in.q.size(3); ++d) score += in.q(b, i, head, d) * in.k(b, j, in.kv_head(head), d);
    const T scaled = in.scale * score;
    row.capped[at] = scaled;
    if (in.options.soft_cap) {
      const auto cap = static_cast<T>(*in.options.soft_cap);
      row.capped[at] = cap * std::tanh(scaled / cap);
    }
    masked[at] = biased(in, row.capped[at], b, head, i, j);
    const bool kept = dropout_bits(dropout_of_row, j) >= dropout_threshold(dropout);
    row.kept[at] = static_cast<T>(kept ? dropout_scale(dropout) : 0.0);
  }
  if (in.options.normaliser == Normaliser::softmax) {
    normalise_by_softmax(masked, sinks.data() != nullptr ? &sinks(head) : nullptr, row);
  } else {
    for (size_t j = 0; j < t_k; ++j) {
      if (row.visible[j]) row.weights[j] = T{1} / (T{1} + std::exp(-masked[j]));
    }
  }
  return row;
}

// Given the gradient of the row's weights, adds to the gradients of the options and returns that of the scaled scores,
// [Tk].
template <class T>
std::vector<T> score_row_backward(const Inputs<T>& in, const Row<T>& row, const std::vector<T>& d_weights,
                                  const ScoreParameters<T>& gradients) {
  const int64_t b = row.b;
  const int64_t head = row.head;
  std::vector<T> d_scaled(row.weights.size());
  T weighted{};  // Σ_j weights · d_weights
  for (size_t j = 0; j < d_scaled.size(); ++j) weighted += row.weights[j] * d_weights[j];
  if (gradients.sinks.data() != nullptr) gradients.sinks(head) -= row.sink_weight * weighted;
  for (int64_t j = 0; j < in.k.size(1); ++j) {
    const auto at = static_cast<size_t>(j);
    if (!row.visible[at]) continue;
    const T d_masked = in.options.normaliser == Normaliser::softmax
                           ? row.weights[at] * (d_weights[at] - weighted)
                           : row.weights[at] * (T{1} - row.weights[at]) * d_weights[at];
    const int64_t distance = in.distance(b, row.i, j);
    if (gradients.bias.data() != nullptr) bias_at(gradients.bias, b, head, row.i, j) += d_masked;
    if (gradients.relative_table.data() != nullptr) {
      gradients.relative_table(bucket_of(in, distance), head) += d_masked;
    }
    if (gradients.alibi_slopes.data() != nullptr) {
      gradients.alibi_slopes(head) -= d_masked * static_cast<T>(static_cast<double>(std::abs(distance)));
    }
    d_scaled[at] = d_masked;
    if (in.options.soft_cap) {
      const T share = row.capped[at] / static_cast<T>(*in.options.soft_cap);
      d_scaled[at] *= T{1} - share * share;  // tanh' = 1 - tanh²
    }
  }
  return d_scaled;
}

}  // namespace heed::reference
