// The losses in plain loops on any scalar type: the oracle of the losses on views, and of their gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "heed/ops/cross_entropy.h"
#include "heed/ops/losses.h"

namespace heed::test {

template <class T>
struct ReferenceRows {
  int64_t rows = 0, columns = 0;
  std::vector<T> values;

  ReferenceRows(int64_t n, int64_t c) : rows(n), columns(c), values(static_cast<size_t>(n * c)) {}
  explicit ReferenceRows(View<const float, 2> view) : ReferenceRows(view.size(0), view.size(1)) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) (*this)(i, j) = static_cast<T>(view(i, j));
    }
  }
  T& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  const T& operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

template <class T>
T log_sum_exp_reference(const ReferenceRows<T>& logits, int64_t row) {
  T most = logits(row, 0);
  for (int64_t j = 1; j < logits.columns; ++j) most = std::max(most, logits(row, j));
  T sum = 0;
  for (int64_t j = 0; j < logits.columns; ++j) sum += std::exp(logits(row, j) - most);
  return most + std::log(sum);
}

// The losses [N], or the reduced one [1].
template <class T>
std::vector<T> cross_entropy_reference(const ReferenceRows<T>& logits, View<const int64_t, 1> labels,
                                       const CrossEntropyOptions& options) {
  const auto weight = [&](int64_t c) { return options.weight.data() ? static_cast<T>(options.weight(c)) : T{1}; };
  const T smoothing = static_cast<T>(options.label_smoothing);
  std::vector<T> losses;
  T sum = 0, total = 0;
  for (int64_t row = 0; row < logits.rows; ++row) {
    T loss = 0;
    if (labels(row) != options.ignore_index) {
      const int64_t y = labels(row);
      const T log_sum = log_sum_exp_reference(logits, row);
      loss = (1 - smoothing) * weight(y) * (log_sum - logits(row, y));
      for (int64_t c = 0; c < logits.columns; ++c) {
        loss += smoothing / static_cast<T>(logits.columns) * weight(c) * (log_sum - logits(row, c));
      }
      total += weight(y);
    }
    losses.push_back(loss);
    sum += loss;
  }
  if (options.reduction == LossReduction::none) return losses;
  if (options.reduction == LossReduction::sum) return {sum};
  return {total == 0 ? T{0} : sum / total};
}

template <class T>
std::vector<T> nll_reference(const ReferenceRows<T>& log_probs, View<const int64_t, 1> labels,
                             const NllOptions& options) {
  std::vector<T> losses;
  T sum = 0, total = 0;
  for (int64_t row = 0; row < log_probs.rows; ++row) {
    const bool counts = labels(row) != options.ignore_index;
    const T weight = !counts ? T{0} : options.weight.data() ? static_cast<T>(options.weight(labels(row))) : T{1};
    losses.push_back(counts ? -weight * log_probs(row, labels(row)) : T{0});
    sum += losses.back();
    total += weight;
  }
  if (options.reduction == LossReduction::none) return losses;
  if (options.reduction == LossReduction::sum) return {sum};
  return {total == 0 ? T{0} : sum / total};
}

template <class T>
T kl_reference(T log_prob, T target, bool log_target) {
  if (log_target) return std::exp(target) * (target - log_prob);
  return target == 0 ? T{0} : target * (std::log(target) - log_prob);
}

// PyTorch's definition, in a precision where it does not matter that it cancels.
template <class T>
T binary_cross_entropy_reference(T x, T target, T weight, T pos_weight) {
  const T log_weight = 1 + (pos_weight - 1) * target;
  return weight * ((1 - target) * x + log_weight * (std::log1p(std::exp(-std::abs(x))) + std::max(-x, T{0})));
}

// d f / d at, by central differences.
inline double central_difference(double& at, const std::function<double()>& f) {
  constexpr double kStep = 1e-5;
  const double before = at;
  at = before + kStep;
  const double above = f();
  at = before - kStep;
  const double below = f();
  at = before;
  return (above - below) / (2.0 * kStep);
}

}  // namespace heed::test
