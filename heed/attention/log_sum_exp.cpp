#include <cmath>
#include <limits>

#include "heed/attention/attention.h"
#include "heed/attention/problem.h"

namespace heed {

void log_sum_exp(RowStates<const float> rows, View<float, 3> result) {
  const Shape<3>& shape = result.shape();
  check(result.count() == 0 || result.data() != nullptr, "log_sum_exp", "result is a null view of shape ", shape);
  check_rows("log_sum_exp", rows, {shape[0], shape[1], shape[2], 0}, true);
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[1]; ++h) {
      for (int64_t q = 0; q < shape[2]; ++q) {
        // In double: reference and log2 sum may be large and of opposite sign.
        const auto reference = static_cast<double>(rows.reference(b, h, q));
        const auto sum = static_cast<double>(rows.sum(b, h, q));
        const double log2_sum = sum == 0.0 ? -std::numeric_limits<double>::infinity() : reference + std::log2(sum);
        result(b, h, q) = static_cast<float>(log2_sum * 0.69314718055994530942);
      }
    }
  }
}

}  // namespace heed
