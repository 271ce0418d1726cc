// LayerNorm and RMSNorm of one row in plain loops, on any scalar type, and their gradients.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "heed/ops/norm.h"

namespace heed::test {

template <class T>
struct ReferenceNormRow {
  T mean{};
  T rstd{};
  std::vector<T> normed;  // x̂
};

template <class T>
ReferenceNormRow<T> reference_norm(NormKind kind, std::span<const T> s, T eps) {
  const T count = static_cast<T>(s.size());
  ReferenceNormRow<T> row;
  if (kind == NormKind::layer) {
    for (const T value : s) row.mean += value;
    row.mean /= count;
  }
  T squares{};
  for (const T value : s) squares += (value - row.mean) * (value - row.mean);
  row.rstd = T{1} / std::sqrt(squares / count + eps);
  for (const T value : s) row.normed.push_back((value - row.mean) * row.rstd);
  return row;
}

// The gradient of s, from g = d_y ∘ gamma.
template <class T>
std::vector<T> reference_norm_backward(NormKind kind, const ReferenceNormRow<T>& row, std::span<const T> g) {
  const T count = static_cast<T>(g.size());
  T mean_g{};
  T mean_product{};
  for (size_t j = 0; j < g.size(); ++j) {
    if (kind == NormKind::layer) mean_g += g[j] / count;
    mean_product += g[j] * row.normed[j] / count;
  }
  std::vector<T> d_s;
  for (size_t j = 0; j < g.size(); ++j) d_s.push_back(row.rstd * (g[j] - mean_g - row.normed[j] * mean_product));
  return d_s;
}

}  // namespace heed::test
