// Derivatives by central differences in double, to check gradients of plain references.
#pragma once

#include <cstddef>
#include <vector>

#include "heed/core/view.h"

namespace heed::test {

// d loss() / d values[i] for each i; loss() reads `values`.
template <class Loss>
std::vector<double> numeric_gradient(std::vector<double>& values, Loss loss) {
  constexpr double kStep = 1e-5;
  std::vector<double> gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    values[i] = value + kStep;
    const double above = loss();
    values[i] = value - kStep;
    const double below = loss();
    values[i] = value;
    gradient[i] = (above - below) / (2.0 * kStep);
  }
  return gradient;
}

// The elements in double, row by row.
inline std::vector<double> to_double(View<const float, 2> matrix) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(matrix.count()));
  for (int64_t i = 0; i < matrix.size(0); ++i) {
    for (int64_t j = 0; j < matrix.size(1); ++j) values.push_back(static_cast<double>(matrix(i, j)));
  }
  return values;
}

}  // namespace heed::test
