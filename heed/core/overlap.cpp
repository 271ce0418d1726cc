#include "heed/core/overlap.h"

#include <cstdlib>

namespace heed::detail {
namespace {

// The range of distances between elements of a and b, ignoring steps that are multiples of `modulus`; 0 ignores none.
struct Distances {
  int64_t least = 0;
  int64_t most = 0;

  // The steps of a dimension, taken forwards (b's) or backwards (a's).
  void add(const Extents& view, int64_t modulus, int64_t sign) {
    for (size_t i = 0; i < view.sizes.size(); ++i) {
      if (view.sizes[i] <= 1 || (modulus != 0 && view.strides[i] % modulus == 0)) continue;
      const int64_t reach = sign * (view.sizes[i] - 1) * view.strides[i];
      (reach < 0 ? least : most) += reach;
    }
  }

  // Is 0 among them, or with a modulus any multiple of it?
  bool has_zero(int64_t modulus) const {
    if (modulus == 0 || (least <= 0 && most >= 0)) return least <= 0 && most >= 0;
    return least > 0 ? most / modulus * modulus >= least : least / modulus * modulus <= most;
  }
};

bool is_empty(const Extents& view) {
  for (const int64_t size : view.sizes) {
    if (size <= 0) return true;
  }
  return false;
}

}  // namespace

// Two elements coincide if their distance is 0. Distances are sums of steps: they are in a range, and modulo a stride
// all steps of that stride (and its multiples) vanish, which narrows the range to that of one row, or one item.
bool may_share_memory(const Extents& a, const Extents& b, int64_t distance) {
  if (is_empty(a) || is_empty(b)) return false;
  const auto may_share = [&](int64_t modulus) {
    Distances distances{distance, distance};
    distances.add(a, modulus, -1);
    distances.add(b, modulus, 1);
    return distances.has_zero(modulus);
  };
  if (!may_share(0)) return false;
  for (const Extents* view : {&a, &b}) {
    for (size_t i = 0; i < view->sizes.size(); ++i) {
      const int64_t stride = std::abs(view->strides[i]);
      if (view->sizes[i] > 1 && stride > 1 && !may_share(stride)) return false;
    }
  }
  return true;
}

}  // namespace heed::detail
