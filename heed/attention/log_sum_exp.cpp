#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/attention/attention.h"
#include "heed/attention/problem.h"

namespace heed {

namespace {
constexpr double kMost = std::numeric_limits<float>::max();
}

void log_sum_exp(RowStates<const float> rows, View<float, 3> result) {
  const Shape<3>& shape = result.shape();
  check_view("log_sum_exp", "result", result);
  check_rows("log_sum_exp", rows, {shape[0], shape[1], shape[2], 0}, true);
  if (result.count() == 0) return;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t q = 0; q < shape[2]; ++q) {
        // In double: shift and the logarithm of the sum may be large and of opposite sign.
        const auto shift = static_cast<double>(rows.shift(b, h, q));
        const auto sum = static_cast<double>(rows.sum(b, h, q));
        const double value = sum == 0.0 ? -std::numeric_limits<double>::infinity() : kLogOf256 * shift + std::log(sum);
        // A score and its biases may add up to more than a float holds: what is finite stays finite.
        result(b, h, q) =
            std::isfinite(value) ? static_cast<float>(std::clamp(value, -kMost, kMost)) : static_cast<float>(value);
      }
    }
  }
}

}  // namespace heed
