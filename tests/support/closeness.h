// How close results are to a reference, as the contract of attention measures it: the largest error against the largest
// reference, for each head.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "heed/core/view.h"

namespace heed::test {

// The largest |got - expected| and |expected| of pairs. A NaN, or an infinity that the other one is not, is an error
// of ∞.
class Closeness {
 public:
  void add(float got, double expected) {
    const double wide = static_cast<double>(got);
    if (std::isfinite(wide) && std::isfinite(expected)) {
      error_ = std::max(error_, std::abs(wide - expected));
      size_ = std::max(size_, std::abs(expected));
    } else if (wide != expected) {
      error_ = std::numeric_limits<double>::infinity();
    }
  }

  double error() const { return error_; }
  double size() const { return size_; }

  // The error against the largest reference, or against `least` where that is smaller: results that cancel to nearly
  // nothing are measured by the terms they are made of.
  double relative(double least = 0.0) const { return error_ == 0.0 ? 0.0 : error_ / std::max(size_, least); }

 private:
  double error_ = 0.0;
  double size_ = 0.0;
};

// [B, T, H, D]: within tolerance for each item and head.
template <class T>
void expect_heads_close(View<const float, 4> got, View<const T, 4> expected, double tolerance, double least = 0.0) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (int64_t b = 0; b < got.size(0); ++b) {
    for (int64_t h = 0; h < got.size(2); ++h) {
      Closeness head;
      for (int64_t t = 0; t < got.size(1); ++t) {
        for (int64_t d = 0; d < got.size(3); ++d) head.add(got(b, t, h, d), static_cast<double>(expected(b, t, h, d)));
      }
      EXPECT_LE(head.relative(least), tolerance)
          << "item " << b << ", head " << h << ": error " << head.error() << ", largest reference " << head.size();
    }
  }
}

}  // namespace heed::test
