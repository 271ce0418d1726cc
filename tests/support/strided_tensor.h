// A tensor of any rank and layout inside guarded memory, and plain loops over indices, for tests of ops on strided
// views.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "heed/core/rng.h"
#include "heed/core/view.h"

namespace heed::test {

enum class Spread {
  contiguous,  // row-major
  padded,      // row-major with gaps between the rows of every dimension
  gapped,      // the same, and between elements
  permuted,    // the first dimension is the innermost, with gaps
  reversed,    // contiguous, and the first and last dimensions run backwards
};
inline constexpr Spread kSpreads[] = {Spread::contiguous, Spread::padded, Spread::gapped, Spread::permuted,
                                      Spread::reversed};

// f(index) for each index of the shape, in row-major order.
template <int N, class F>
void for_each_index(const Shape<N>& shape, F f) {
  Shape<N> index{};
  for (int64_t left = element_count(shape); left > 0; --left) {
    f(index);
    for (size_t d = N; d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

template <class T, int N>
T& element(const View<T, N>& view, const std::type_identity_t<Shape<N>>& index) {
  int64_t at = 0;
  for (size_t d = 0; d < N; ++d) at += index[d] * view.strides()[d];
  return view.data()[at];
}

// Normal values; the first element is at an address that no vector is aligned to.
template <int N>
class StridedTensor {
 public:
  explicit StridedTensor(const Shape<N>& shape, Spread spread = Spread::contiguous, uint64_t seed = 1) : shape_(shape) {
    std::vector<size_t> order(N);  // from the innermost out
    for (size_t d = 0; d < N; ++d) order[d] = spread == Spread::permuted ? d : N - 1 - d;
    const bool gaps = spread == Spread::padded || spread == Spread::gapped || spread == Spread::permuted;
    int64_t step = spread == Spread::gapped ? 3 : 1;
    for (const size_t d : order) {
      strides_[d] = step;
      step = step * std::max<int64_t>(shape[d], 1) + (gaps ? 2 : 0);
    }
    for (size_t d = 0; d < N && spread == Spread::reversed; d += std::max<size_t>(N - 1, 1)) {
      first_ += std::max<int64_t>(shape[d] - 1, 0) * strides_[d];
      strides_[d] = -strides_[d];
    }
    first_ += kMargin;
    memory_.assign(static_cast<size_t>(2 * kMargin + step), kGuard);
    uint64_t n = 0;
    for_each_index<N>(shape, [&](const Shape<N>& index) { element(view(), index) = Rng(seed).normal(n++); });
    before_ = memory_;
  }

  View<float, N> view() { return {memory_.data() + first_, shape_, strides_}; }
  View<const float, N> view() const { return {memory_.data() + first_, shape_, strides_}; }

  double at(const Shape<N>& index) const { return static_cast<double>(element(view(), index)); }
  // As it was at construction.
  double before(const Shape<N>& index) const {
    return static_cast<double>(element(View<const float, N>(before_.data() + first_, shape_, strides_), index));
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for_each_index<N>(shape_, [&](const Shape<N>& index) { all.push_back(at(index)); });
    return all;
  }

  // Nothing but the elements has changed since construction.
  void expect_guards() const {
    std::vector<float> expected = before_;
    const View<float, N> elements(expected.data() + first_, shape_, strides_);
    for_each_index<N>(shape_, [&](const Shape<N>& index) { element(elements, index) = element(view(), index); });
    for (size_t i = 0; i < memory_.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(memory_[i]), std::bit_cast<uint32_t>(expected[i]))
          << "memory outside of the view was written, at offset " << static_cast<int64_t>(i) - first_;
    }
  }

 private:
  static constexpr int64_t kMargin = 67;
  static constexpr float kGuard = -54321.0F;

  Shape<N> shape_;
  Shape<N> strides_{};
  int64_t first_ = 0;
  std::vector<float> memory_;
  std::vector<float> before_;
};

// The gradient of Σ weight · f(x) by central differences: the oracle of every backward. f maps all values of x to all
// values of y, in double and row-major.
using PlainFunction = std::function<std::vector<double>(const std::vector<double>&)>;
inline std::vector<double> central_differences(const PlainFunction& f, std::vector<double> x,
                                               const std::vector<double>& weight, double step = 1e-4) {
  const auto weighted = [&] {
    const std::vector<double> y = f(x);
    double sum = 0.0;
    for (size_t i = 0; i < y.size(); ++i) sum += weight[i] * y[i];
    return sum;
  };
  std::vector<double> gradient;
  for (double& element : x) {
    const double kept = element;
    element = kept + step;
    const double above = weighted();
    element = kept - step;
    gradient.push_back((above - weighted()) / (2.0 * step));
    element = kept;
  }
  return gradient;
}

// got = expected, plus what was there before if `added`, within the tolerance; nothing else was written.
template <int N>
void expect_gradient(const StridedTensor<N>& got, const std::vector<double>& expected, bool added, double tolerance) {
  size_t n = 0;
  ASSERT_EQ(static_cast<int64_t>(expected.size()), got.view().count());
  for_each_index<N>(got.view().shape(), [&](const Shape<N>& index) {
    EXPECT_NEAR(got.at(index), expected[n++] + (added ? got.before(index) : 0.0), tolerance);
  });
  got.expect_guards();
}

}  // namespace heed::test
