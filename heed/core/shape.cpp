#include "heed/core/shape.h"

#include <limits>

namespace heed::detail {

int64_t limit_of_product(int64_t a, int64_t b) {
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace heed::detail
