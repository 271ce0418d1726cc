#include "heed/ops/pooling.h"

#include <algorithm>
#include <span>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/contiguous.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/pooling_kernel.h"
#include "heed/ops/reduce_kernel.h"
#include "heed/ops/rows.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// Indices begin … end-1.
struct Range {
  int64_t begin;
  int64_t end;

  int64_t count() const { return std::max<int64_t>(0, end - begin); }
};

// The elements of x that the window at `position` covers, in dimension d of H and W.
Range covered(const PoolWindow& window, size_t d, int64_t size, int64_t position) {
  const int64_t first = position * window.stride[d] - window.padding[d];
  return {std::max<int64_t>(first, 0), std::min(first + window.kernel[d], size)};
}

// The positions whose windows cover element `at` of x.
Range covering(const PoolWindow& window, size_t d, int64_t positions, int64_t at) {
  const int64_t padded = at + window.padding[d];
  const int64_t before = padded - window.kernel[d];  // the last start that does not reach it
  return {before < 0 ? 0 : before / window.stride[d] + 1, std::min(padded / window.stride[d] + 1, positions)};
}

// The elements h × w of a plane [H, W, C].
PoolRectangle rectangle_of(const View<const float, 3>& plane, const Range& h, const Range& w) {
  const int64_t width = plane.size(2);
  const int64_t row_step = plane.size(1) * width;
  const bool empty = h.count() == 0 || w.count() == 0;
  return {empty ? nullptr : plane.data() + h.begin * row_step + w.begin * width, h.count(), w.count(), row_step, width};
}

// element.operator()<isa>(n, h, w) for each of the rows [N, H, W, ·] of a result, `work` floats being read for one.
template <class Element>
void for_each_element(const Shape<4>& shape, int64_t work, Element element) {
  const Shape<2> rows{shape[0] * shape[1] * shape[2], work};
  for_each_range_of_rows(rows, [&]<Isa isa>(int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      element.template operator()<isa>(i / (shape[1] * shape[2]), i / shape[2] % shape[1], i % shape[2]);
    }
  });
}

// Of an element, for the size of tasks only.
int64_t work_of(const PoolWindow& window, int64_t width) {
  return element_count(Shape<3>{window.kernel[0], window.kernel[1], width});
}

float mean_factor(const PoolWindow& window) {
  return static_cast<float>(1.0 / static_cast<double>(window.kernel[0] * window.kernel[1]));
}

// Fills [count] with zeros, unless it is added to.
void clear(float* values, int64_t count, bool add) {
  if (!add) std::fill_n(values, count, 0.0F);
}

// x [B, T, C] and what is pooled of it, [B, C].
template <class T>
void check_global(const char* function, const char* name, const View<T, 2>& pooled, const char* x_name,
                  const View<const float, 3>& x) {
  check_contiguous(function, x_name, x);
  check_contiguous(function, name, pooled, {x.size(0), x.size(2)});
}

void check_lengths_given(const char* function, const View<const int64_t, 1>& lengths, const Shape<3>& x) {
  if (lengths.data() == nullptr) return;
  check_contiguous(function, "lengths", lengths, {x[0]});
  for (int64_t b = 0; b < x[0]; ++b) {
    check(lengths(b) >= 0 && lengths(b) <= x[1], function, "item ", b, " has length ", lengths(b), ", but x ", x,
          " has ", x[1], " rows; lengths are 0 … ", x[1]);
  }
}

int64_t length_of(const View<const int64_t, 1>& lengths, int64_t item, int64_t all) {
  return lengths.data() == nullptr ? all : lengths(item);
}

}  // namespace

Shape<4> pool_shape(const char* function, const Shape<4>& x, const PoolWindow& window) {
  check_sizes(function, "x", x);
  check(x[1] * x[2] <= kMostLength, function, "x has shape ", x, ": at most ", kMostLength, " elements in a plane");
  Shape<4> result = x;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t size = x[d + 1];
    const int64_t kernel = window.kernel[d];
    const int64_t padding = window.padding[d];
    check(kernel >= 1 && kernel <= kMostLength, function, "kernel is ", kernel, "; it must be 1 … ", kMostLength);
    check(window.stride[d] >= 1 && window.stride[d] <= kMostLength, function, "stride is ", window.stride[d],
          "; it must be 1 … ", kMostLength);
    check(padding >= 0 && padding <= kernel / 2, function, "padding is ", padding, " for a kernel of ", kernel,
          "; it must be 0 … half of the kernel, ", kernel / 2);
    check(size >= 1, function, "x has shape ", x, ": there is nothing to pool");
    check(kernel <= size + 2 * padding, function, "a kernel of ", kernel, " is longer than x, which has ", size,
          " elements and ", padding, " of padding at each end; give longer inputs or a smaller kernel");
    result[d + 1] = (size + 2 * padding - kernel) / window.stride[d] + 1;
  }
  return result;
}

void max_pool_forward(View<const float, 4> x, const PoolWindow& window, View<float, 4> y, View<int32_t, 4> index) {
  constexpr const char* kName = "max_pool_forward";
  const Shape<4> shape = pool_shape(kName, x.shape(), window);
  check_contiguous(kName, "x", x);
  check_contiguous(kName, "y", y, shape);
  check_contiguous(kName, "index", index, shape);
  check_apart(kName, "y", y, "x", x);
  const auto columns = static_cast<int32_t>(x.size(2));
  for_each_element(shape, work_of(window, shape[3]), [&]<Isa isa>(int64_t n, int64_t i, int64_t j) {
    const Range h = covered(window, 0, x.size(1), i);
    const Range w = covered(window, 1, x.size(2), j);
    const auto first = static_cast<int32_t>(h.begin * columns + w.begin);
    max_rectangle_kernel<isa>(rectangle_of(x[n], h, w), first, columns, &y(n, i, j, 0), &index(n, i, j, 0));
  });
}

void max_pool_backward(View<const float, 4> d_y, View<const int32_t, 4> index, const InputGradient<4>& d_x) {
  constexpr const char* kName = "max_pool_backward";
  const View<float, 4>& to = d_x.view;
  if (to.data() == nullptr) return;
  const int64_t plane = to.size(1) * to.size(2);
  const int64_t width = to.size(3);
  check_contiguous(kName, "d_x", to);
  check_contiguous(kName, "d_y", d_y, {to.size(0), d_y.size(1), d_y.size(2), width});
  check_contiguous(kName, "index", index, d_y.shape());
  check_apart(kName, "d_x", to, "d_y", d_y);
  for (const int32_t at : std::span(index.data(), static_cast<size_t>(index.count()))) {
    check(at >= 0 && at < plane, kName, "index has ", at, " for a plane of ", plane,
          " elements: pass that of max_pool_forward");
  }
  if (to.count() == 0) return;
  const int64_t pooled = d_y.size(1) * d_y.size(2);
  for_each_range_of_rows({to.size(0), plane * width}, [&]<Isa>(int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      float* const sums = to.data() + n * plane * width;
      clear(sums, plane * width, d_x.add);
      for (int64_t i = n * pooled; i < (n + 1) * pooled; ++i) {
        const int32_t* const places = index.data() + i * width;
        const float* const gradient = d_y.data() + i * width;
        for (int64_t c = 0; c < width; ++c) sums[places[c] * width + c] += gradient[c];
      }
    }
  });
}

void avg_pool_forward(View<const float, 4> x, const PoolWindow& window, View<float, 4> y) {
  constexpr const char* kName = "avg_pool_forward";
  const Shape<4> shape = pool_shape(kName, x.shape(), window);
  check_contiguous(kName, "x", x);
  check_contiguous(kName, "y", y, shape);
  check_apart(kName, "y", y, "x", x);
  const float factor = mean_factor(window);
  for_each_element(shape, work_of(window, shape[3]), [&]<Isa isa>(int64_t n, int64_t i, int64_t j) {
    const Range h = covered(window, 0, x.size(1), i);
    const Range w = covered(window, 1, x.size(2), j);
    sum_rectangle_kernel<isa>(rectangle_of(x[n], h, w), factor, &y(n, i, j, 0), false);
  });
}

void avg_pool_backward(View<const float, 4> d_y, const PoolWindow& window, const InputGradient<4>& d_x) {
  constexpr const char* kName = "avg_pool_backward";
  const View<float, 4>& to = d_x.view;
  if (to.data() == nullptr) return;
  check_contiguous(kName, "d_x", to);
  check_contiguous(kName, "d_y", d_y, pool_shape(kName, to.shape(), window));
  check_apart(kName, "d_x", to, "d_y", d_y);
  const float factor = mean_factor(window);
  for_each_element(to.shape(), work_of(window, to.size(3)), [&]<Isa isa>(int64_t n, int64_t i, int64_t j) {
    const Range h = covering(window, 0, d_y.size(1), i);
    const Range w = covering(window, 1, d_y.size(2), j);
    sum_rectangle_kernel<isa>(rectangle_of(d_y[n], h, w), factor, &to(n, i, j, 0), d_x.add);
  });
}

void global_max_forward(View<const float, 3> x, View<const int64_t, 1> lengths, View<float, 2> y,
                        View<int64_t, 2> index) {
  constexpr const char* kName = "global_max_forward";
  check_global(kName, "y", y, "x", x);
  check_global(kName, "index", index, "x", x);
  check_lengths_given(kName, lengths, x.shape());
  check_apart(kName, "y", y, "x", x);
  check(x.size(1) <= kMostLength, kName, "x has shape ", x.shape(), ": at most ", kMostLength, " rows");
  const int64_t width = x.size(2);
  for_each_range_of_rows({x.size(0), std::max<int64_t>(x.size(1), 1) * width},
                         [&]<Isa isa>(int64_t begin, int64_t end) {
                           for (int64_t b = begin; b < end; ++b) {
                             const int64_t length = length_of(lengths, b, x.size(1));
                             if (length > 0) {
                               max_columns_kernel<isa>(x[b].data(), length, width, width, y[b].data(), index[b].data());
                             } else {
                               std::fill_n(y[b].data(), width, 0.0F);
                               std::fill_n(index[b].data(), width, int64_t{-1});
                             }
                           }
                         });
}

void global_max_backward(View<const float, 2> d_y, View<const int64_t, 2> index, const InputGradient<3>& d_x) {
  constexpr const char* kName = "global_max_backward";
  const View<float, 3>& to = d_x.view;
  if (to.data() == nullptr) return;
  check_global(kName, "d_y", d_y, "d_x", to);
  check_global(kName, "index", index, "d_x", to);
  check_apart(kName, "d_x", to, "d_y", d_y);
  for (const int64_t at : std::span(index.data(), static_cast<size_t>(index.count()))) {
    check(at >= -1 && at < to.size(1), kName, "index has ", at, " for ", to.size(1),
          " rows: pass that of global_max_forward");
  }
  for_each_range_of_rows({to.size(0), to.size(1) * to.size(2)}, [&]<Isa>(int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      clear(to[b].data(), to[b].count(), d_x.add);
      for (int64_t c = 0; c < to.size(2); ++c) {
        if (index(b, c) >= 0) to(b, index(b, c), c) += d_y(b, c);
      }
    }
  });
}

void global_mean_forward(View<const float, 3> x, View<const int64_t, 1> lengths, View<float, 2> y) {
  constexpr const char* kName = "global_mean_forward";
  check_global(kName, "y", y, "x", x);
  check_lengths_given(kName, lengths, x.shape());
  check_apart(kName, "y", y, "x", x);
  parallel_for(x.size(0), [&](int64_t b, int) {
    const int64_t length = length_of(lengths, b, x.size(1));
    const double factor = 1.0 / static_cast<double>(std::max<int64_t>(length, 1));
    broadcast_sum({.x = {x[b].data(), {1, 1, length, x.size(2)}}, .scale = factor},
                  View<float, 4>(y[b].data(), {1, 1, 1, x.size(2)}));
  });
}

void global_mean_backward(View<const float, 2> d_y, View<const int64_t, 1> lengths, const InputGradient<3>& d_x) {
  constexpr const char* kName = "global_mean_backward";
  const View<float, 3>& to = d_x.view;
  if (to.data() == nullptr) return;
  check_global(kName, "d_y", d_y, "d_x", to);
  check_lengths_given(kName, lengths, to.shape());
  check_apart(kName, "d_x", to, "d_y", d_y);
  parallel_for(to.size(0), [&](int64_t b, int) {
    const int64_t width = to.size(2);
    const int64_t length = length_of(lengths, b, to.size(1));
    const double factor = 1.0 / static_cast<double>(std::max<int64_t>(length, 1));
    scale_add(static_cast<float>(factor), {d_y[b].data(), {1, 1, 1, width}},
              {View<float, 4>(to[b].data(), {1, 1, length, width}), d_x.add});
    clear(to[b].data() + length * width, (to.size(1) - length) * width, d_x.add);
  });
}

}  // namespace heed
