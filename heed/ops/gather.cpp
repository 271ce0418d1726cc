#include "heed/ops/gather.h"

#include <algorithm>

#include "heed/ops/broadcast.h"
#include "heed/ops/strided_loop.h"

namespace heed {
namespace {

// x [outer, n, inner] and gathered [outer, k, inner].
void check_gather(const char* function, const char* x_name, const View<const float, 3>& x,
                  const View<const int64_t, 3>& index, const char* name, const View<const float, 3>& gathered) {
  check_view(function, x_name, x);
  check_view(function, "index", index);
  check_view(function, name, gathered);
  check(index.size(0) == x.size(0) && index.size(2) == x.size(2), function, "index has shape ", index.shape(), ", but ",
        x_name, " ", x.shape(), ": only their middles may differ");
  check(gathered.shape() == index.shape(), function, name, " has shape ", gathered.shape(),
        ", expected that of index, ", index.shape());
  for (int64_t o = 0; o < index.size(0); ++o) {
    for (int64_t j = 0; j < index.size(1); ++j) {
      for (int64_t i = 0; i < index.size(2); ++i) {
        const int64_t at = index(o, j, i);
        check(at >= 0 && at < x.size(1), function, "index is ", at, " at [", o, ", ", j, ", ", i, "], but ", x_name,
              " ", x.shape(), " has 0 … ", x.size(1) - 1, " in its middle");
      }
    }
  }
}

// body(o, begin, end) for pieces of the inner dimension, each of about `height` rows, in parallel: every element of
// x belongs to one piece.
template <class Body>
void for_each_piece(int64_t outer, int64_t height, int64_t inner, Body body) {
  if (outer == 0 || inner == 0) return;
  const int64_t width = std::max<int64_t>(16, kTaskElements / std::max<int64_t>(height, 1));
  const int64_t pieces = divide_up(inner, width);
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(height * std::min(inner, width), 1));
  parallel_for(divide_up(outer, step) * pieces, [&](int64_t task, int) {
    const int64_t begin = task % pieces * width;
    const int64_t first = task / pieces * step;
    for (int64_t o = first; o < std::min(first + step, outer); ++o) body(o, begin, std::min(begin + width, inner));
  });
}

}  // namespace

void gather_forward(View<const float, 3> x, View<const int64_t, 3> index, View<float, 3> y) {
  constexpr const char* kName = "gather_forward";
  check_gather(kName, "x", x, index, "y", y);
  check_writable(kName, "y", y);
  check_apart(kName, "y", y, "x", x);
  for_each_piece(index.size(0), index.size(1), index.size(2), [&](int64_t o, int64_t begin, int64_t end) {
    for (int64_t j = 0; j < index.size(1); ++j) {
      for (int64_t i = begin; i < end; ++i) y(o, j, i) = x(o, index(o, j, i), i);
    }
  });
}

void gather_backward(View<const int64_t, 3> index, View<const float, 3> d_y, const InputGradient<3>& d_x) {
  constexpr const char* kName = "gather_backward";
  const View<float, 3>& to = d_x.view;
  if (to.data() == nullptr) return;
  check_gather(kName, "d_x", to, index, "d_y", d_y);
  check_writable(kName, "d_x", to);
  check_apart(kName, "d_x", to, "d_y", d_y);
  for_each_piece(index.size(0), std::max(index.size(1), to.size(1)), index.size(2),
                 [&](int64_t o, int64_t begin, int64_t end) {
                   for (int64_t j = 0; j < to.size(1) && !d_x.add; ++j) {
                     for (int64_t i = begin; i < end; ++i) to(o, j, i) = 0.0F;
                   }
                   for (int64_t j = 0; j < index.size(1); ++j) {
                     for (int64_t i = begin; i < end; ++i) to(o, index(o, j, i), i) += d_y(o, j, i);
                   }
                 });
}

}  // namespace heed
