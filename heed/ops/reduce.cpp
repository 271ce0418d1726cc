#include "heed/ops/reduce.h"

#include <algorithm>
#include <span>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/contiguous.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/reduce_kernel.h"
#include "heed/ops/strided_loop.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// x [outer, n, inner], and `reduced` [outer, inner].
template <class X, class Y>
void check_reduction(const char* function, const char* x_name, const View<X, 3>& x, const char* name,
                     const View<Y, 2>& reduced) {
  check_contiguous(function, x_name, x);
  const Shape<2> expected{x.size(0), x.size(2)};
  check(reduced.shape() == expected, function, name, " has shape ", reduced.shape(), ", expected ", expected,
        ", that of ", x_name, " ", x.shape(), " without its middle");
  check_contiguous(function, name, reduced);
}

// The views of a reduction with the rank of elementwise ops; the middle of `reduced` has size 1.
View<const float, 4> wide_x(const View<const float, 3>& x) { return {x.data(), {1, x.size(0), x.size(1), x.size(2)}}; }
template <class T>
View<T, 4> wide_reduced(const View<T, 2>& reduced) {
  return {reduced.data(), {1, reduced.size(0), 1, reduced.size(1)}};
}

void reduce_sum(const char* function, const View<const float, 3>& x, const View<float, 2>& y, double factor) {
  check_reduction(function, "x", x, "y", y);
  check_apart(function, "y", y, "x", x);
  broadcast_sum({.x = wide_x(x), .scale = factor}, wide_reduced(y));
}

// d_x (+)= factor · d_y
void repeat(const char* function, const View<const float, 2>& d_y, const InputGradient<3>& d_x, float factor) {
  if (d_x.view.data() == nullptr) return;
  check_reduction(function, "d_x", d_x.view, "d_y", d_y);
  check_apart(function, "d_x", d_x.view, "d_y", d_y);
  const View<float, 3>& to = d_x.view;
  scale_add(factor, wide_reduced(d_y), {View<float, 4>(to.data(), {1, to.size(0), to.size(1), to.size(2)}), d_x.add});
}

}  // namespace

void sum_forward(View<const float, 3> x, View<float, 2> y) { reduce_sum("sum_forward", x, y, 1.0); }

void sum_backward(View<const float, 2> d_y, const InputGradient<3>& d_x) { repeat("sum_backward", d_y, d_x, 1.0F); }

void mean_forward(View<const float, 3> x, View<float, 2> y) {
  reduce_sum("mean_forward", x, y, 1.0 / static_cast<double>(x.size(1)));
}

void mean_backward(View<const float, 2> d_y, const InputGradient<3>& d_x) {
  repeat("mean_backward", d_y, d_x, static_cast<float>(1.0 / static_cast<double>(d_x.view.size(1))));
}

void max_forward(View<const float, 3> x, View<float, 2> y, View<int64_t, 2> index) {
  constexpr const char* kName = "max_forward";
  check_reduction(kName, "x", x, "y", y);
  check_reduction(kName, "x", x, "index", index);
  check_apart(kName, "y", y, "x", x);
  const int64_t n = x.size(1);
  const int64_t inner = x.size(2);
  check(n > 0 || y.count() == 0, kName, "x has shape ", x.shape(), ": nothing has no maximum");
  check(n <= kMostLength, kName, "x has shape ", x.shape(), ": at most ", kMostLength, " elements in the middle");
  if (y.count() == 0) return;
  dispatch([&]<Isa isa>() {
    if (inner == 1) {
      const int64_t step = std::max<int64_t>(1, kTaskElements / n);
      return parallel_for(divide_up(x.size(0), step), [&](int64_t task, int) {
        for (int64_t o = task * step; o < std::min((task + 1) * step, x.size(0)); ++o) {
          max_row_kernel<isa>(&x(o, 0, 0), n, &y(o, 0), &index(o, 0));
        }
      });
    }
    const int64_t width = std::max<int64_t>(64, kTaskElements / n / 64 * 64);  // of a strip of columns
    const int64_t strips = divide_up(inner, width);
    const int64_t step = std::max<int64_t>(1, kTaskElements / (n * std::min(inner, width)));
    parallel_for(divide_up(x.size(0), step) * strips, [&](int64_t task, int) {
      const int64_t c = task % strips * width;
      const int64_t first = task / strips * step;
      for (int64_t o = first; o < std::min(first + step, x.size(0)); ++o) {
        max_columns_kernel<isa>(&x(o, 0, c), n, inner, std::min(width, inner - c), &y(o, c), &index(o, c));
      }
    });
  });
}

void max_backward(View<const float, 2> d_y, View<const int64_t, 2> index, const InputGradient<3>& d_x) {
  constexpr const char* kName = "max_backward";
  const View<float, 3>& to = d_x.view;
  if (to.data() == nullptr) return;
  check_reduction(kName, "d_x", to, "d_y", d_y);
  check_reduction(kName, "d_x", to, "index", index);
  check_apart(kName, "d_x", to, "d_y", d_y);
  for (const int64_t at : std::span(index.data(), static_cast<size_t>(index.count()))) {
    check(at >= 0 && at < to.size(1), kName, "index has ", at, " for ", to.size(1),
          " elements: pass that of max_forward");
  }
  if (to.count() == 0) return;
  const int64_t step = std::max<int64_t>(1, kTaskElements / (to.size(1) * to.size(2)));
  parallel_for(divide_up(to.size(0), step), [&](int64_t task, int) {
    for (int64_t o = task * step; o < std::min((task + 1) * step, to.size(0)); ++o) {
      if (!d_x.add) std::fill_n(&to(o, 0, 0), to.size(1) * to.size(2), 0.0F);
      for (int64_t c = 0; c < to.size(2); ++c) to(o, index(o, c), c) += d_y(o, c);
    }
  });
}

}  // namespace heed
