// Recurrent layers in plain loops, on any scalar type: one step of one item.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "heed/ops/recurrent.h"

namespace heed::test {

// Of a direction; biases may be empty.
template <class T>
struct ReferenceRecurrentParameters {
  std::span<const T> weight_ih, weight_hh;  // [G·H, I], [G·H, H]
  std::span<const T> bias_ih, bias_hh;      // [G·H]
};

// Row `row` of W v + b.
template <class T>
T reference_row(std::span<const T> weight, std::span<const T> bias, std::span<const T> v, size_t row) {
  T sum = bias.empty() ? T{0} : bias[row];
  for (size_t k = 0; k < v.size(); ++k) sum += weight[row * v.size() + k] * v[k];
  return sum;
}

// h [H] and, for LSTM, c [H] become those after x [I].
template <class T>
void reference_recurrent_step(RecurrentKind kind, const ReferenceRecurrentParameters<T>& p, std::span<const T> x,
                              std::vector<T>& h, std::vector<T>& c) {
  const size_t hidden = h.size();
  const std::vector<T> before = h;
  const auto sigmoid = [](T a) { return T{1} / (T{1} + std::exp(-a)); };
  const auto from_x = [&](size_t gate, size_t j) {
    return reference_row<T>(p.weight_ih, p.bias_ih, x, gate * hidden + j);
  };
  const auto from_h = [&](size_t gate, size_t j) {
    return reference_row<T>(p.weight_hh, p.bias_hh, before, gate * hidden + j);
  };
  const auto both = [&](size_t gate, size_t j) { return from_x(gate, j) + from_h(gate, j); };
  for (size_t j = 0; j < hidden; ++j) {
    if (kind == RecurrentKind::rnn_tanh) h[j] = std::tanh(both(0, j));
    if (kind == RecurrentKind::rnn_relu) h[j] = both(0, j) > T{0} ? both(0, j) : T{0};
    if (kind == RecurrentKind::lstm) {
      c[j] = sigmoid(both(1, j)) * c[j] + sigmoid(both(0, j)) * std::tanh(both(2, j));
      h[j] = sigmoid(both(3, j)) * std::tanh(c[j]);
    }
    if (kind == RecurrentKind::gru) {
      const T r = sigmoid(both(0, j)), z = sigmoid(both(1, j));
      const T n = std::tanh(from_x(2, j) + r * from_h(2, j));
      h[j] = (T{1} - z) * n + z * before[j];
    }
  }
}

}  // namespace heed::test
