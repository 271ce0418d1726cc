#include "heed/ops/convolution.h"

#include <algorithm>
#include <numeric>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/overlap.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/contiguous.h"
#include "heed/ops/copy.h"
#include "heed/ops/matmul_sum.h"
#include "heed/parallel/parallel_for.h"

namespace heed {
namespace {

// The sizes of a call, checked.
struct Conv1dSizes {
  Conv1dSizes(const char* function, const Shape<3>& x, const Shape<3>& weight, const Conv1dGeometry& given)
      : items(x[0]), length(x[1]), channels(x[2]), outputs(weight[0]), kernel(weight[2]), geometry(given) {
    positions = conv1d_shape(function, x, weight, given)[1];
    group_channels = weight[1];
    group_outputs = outputs / given.groups;
  }

  Shape<3> y() const { return {items, positions, outputs}; }
  int64_t padded_length() const { return length + 2 * geometry.padding; }
  // The rows of a window are side by side, and all their channels are read: a window is one row of a matrix.
  bool windows_are_rows() const { return geometry.groups == 1 && (geometry.dilation == 1 || kernel == 1); }
  int64_t window() const { return kernel * channels; }
  // From a group's part of the weight to the next.
  int64_t group_weights() const { return group_outputs * group_channels * kernel; }

  int64_t items, length, channels, outputs, kernel, positions, group_channels, group_outputs;
  Conv1dGeometry geometry;
};

void check_overlap(const char* function, const char* name, const View<float, 3>& result, const View<const float, 3>& x,
                   const View<const float, 3>& weight) {
  check_apart(function, name, result, "x", x);
  check_apart(function, name, result, "weight", weight);
}

// Rows of items [B, T, C] between rows of zeros: rows(item, to) fills those of an item. [B, before + T + after, C]
template <class Rows>
View<const float, 3> between_zeros(const Shape<3>& shape, int64_t before, int64_t after, Arena& arena, Rows rows) {
  const Shape<3> padded{shape[0], before + shape[1] + after, shape[2]};
  const View<float, 3> result(arena.take<float>(element_count(padded)), padded);
  parallel_for(shape[0], [&](int64_t item, int) {
    const View<float, 2> to = result[item];
    std::fill_n(to.data(), before * shape[2], 0.0F);
    rows(item, to.slice(0, before, shape[1]));
    std::fill_n(to.data() + (before + shape[1]) * shape[2], after * shape[2], 0.0F);
  });
  return result;
}

// x with its padding: [B, T + 2 padding, C].
View<const float, 3> padded_rows(const View<const float, 3>& x, int64_t padding, Arena& arena) {
  if (padding == 0) return x;
  return between_zeros(x.shape(), padding, padding, arena, [&](int64_t item, const View<float, 2>& to) {
    std::copy_n(x[item].data(), to.count(), to.data());
  });
}

// The windows of every item as rows of a matrix: [B, positions, kernel · C]
View<const float, 3> windows_of(const Conv1dSizes& sizes, const View<const float, 3>& rows) {
  const int64_t stride = sizes.geometry.stride * sizes.channels;
  return {rows.data(), {sizes.items, sizes.positions, sizes.window()}, {rows.stride(0), stride, 1}};
}

// The weight with its taps in the order of a window: [outputs, kernel · C]
View<const float, 2> tap_major(const Conv1dSizes& sizes, const View<const float, 3>& weight, Arena& arena) {
  const int64_t c = sizes.channels;
  const int64_t k = sizes.kernel;
  float* const to = arena.take<float>(weight.count());
  copy({weight.data(), {1, 1, 1, sizes.outputs, k, c}, {0, 0, 0, k * c, 1, k}}, {to, {1, 1, 1, sizes.outputs, k, c}});
  return {to, {sizes.outputs, k * c}};
}

// The rows of x that tap j of group g meets: [taps, items, positions, channels of the group].
View<const float, 4> tap_rows(const Conv1dSizes& sizes, const View<const float, 3>& rows, int64_t group) {
  const int64_t c = sizes.channels;
  return {rows.data() + group * sizes.group_channels,
          {sizes.kernel, sizes.items, sizes.positions, sizes.group_channels},
          {sizes.geometry.dilation * c, rows.stride(0), sizes.geometry.stride * c, 1}};
}

// z = the convolution without its activation, tap by tap and group by group.
void forward_by_taps(const Conv1dSizes& sizes, const View<const float, 3>& rows, const Conv1dParameters& parameters,
                     const View<float, 3>& z, Arena& arena) {
  const int64_t outputs = sizes.group_outputs;
  const int64_t channels = sizes.group_channels;
  for (int64_t g = 0; g < sizes.geometry.groups; ++g) {
    const View<const float, 4> a = tap_rows(sizes, rows, g).permuted({1, 0, 2, 3});
    const View<const float, 4> b(parameters.weight.data() + g * sizes.group_weights(),
                                 {sizes.items, sizes.kernel, channels, outputs},
                                 {0, 1, sizes.kernel, channels * sizes.kernel});
    MatmulSumOptions options;
    if (parameters.bias.data() != nullptr) options.bias = parameters.bias.slice(0, g * outputs, outputs);
    options.arena = &arena;
    matmul_sum(a, b, z.slice(2, g * outputs, outputs), options);
  }
}

// All but the last dimension as rows.
template <class T>
View<T, 2> as_rows(const View<T, 3>& view) {
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}};
}

// The rows t, t + stride, … of x: the same taps meet them, each at positions of y that follow each other. Row i meets
// tap first_tap + m · tap_step at position first_position + i - m · position_step, for m = 0 … taps-1.
struct Phase {
  Phase(const Conv1dSizes& sizes, int64_t t) : row(t) {
    const auto& [stride, padding, dilation, groups] = sizes.geometry;
    const int64_t common = std::gcd(stride, dilation);
    tap_step = stride / common;
    position_step = dilation / common;
    rows = divide_up(sizes.length - t, stride);
    const int64_t at = t + padding;
    while (first_tap < sizes.kernel && (at - first_tap * dilation) % stride != 0) {
      if (++first_tap >= tap_step) return;  // taps repeat from here on: none
    }
    if (first_tap >= sizes.kernel) return;
    taps = (sizes.kernel - 1 - first_tap) / tap_step + 1;
    first_position = (at - first_tap * dilation) / stride;
  }

  int64_t lowest_position() const { return first_position - (taps - 1) * position_step; }
  int64_t highest_position() const { return first_position + rows - 1; }

  int64_t row;       // t
  int64_t rows = 0;  // of x, in this phase
  int64_t taps = 0;
  int64_t first_tap = 0;
  int64_t tap_step = 1;
  int64_t first_position = 0;
  int64_t position_step = 1;
};

int64_t phases(const Conv1dSizes& sizes) { return std::min(sizes.geometry.stride, sizes.length); }

// d_z, between the zeros that the rows of x next to the ends meet where d_x is wanted.
struct OutputGradient {
  OutputGradient(const Conv1dSizes& sizes, const Conv1dSaved& saved, const View<const float, 3>& d_y, bool wants_d_x,
                 Arena& arena) {
    int64_t after = 0;
    for (int64_t t = 0; wants_d_x && t < phases(sizes); ++t) {
      const Phase phase(sizes, t);
      if (phase.taps == 0) continue;
      before = std::max(before, -phase.lowest_position());
      after = std::max(after, phase.highest_position() - (sizes.positions - 1));
    }
    if (before == 0 && after == 0 && saved.derivative.data() == nullptr) {
      padded = d_y;
      return;
    }
    padded = between_zeros(sizes.y(), before, after, arena, [&](int64_t item, const View<float, 2>& to) {
      if (saved.derivative.data() == nullptr) {
        std::copy_n(d_y[item].data(), to.count(), to.data());
      } else {
        derivative_backward(saved.derivative[item], d_y[item], to);
      }
    });
  }

  int64_t before = 0;           // zeros of an item
  View<const float, 3> padded;  // [B, before + positions + after, outputs]
};

// d_W += Σ_items d_zᵀ windows, with the taps of d_W in the order of a window.
void weight_gradient(const Conv1dSizes& sizes, const View<const float, 3>& rows, const View<const float, 3>& d_z,
                     const View<float, 3>& d_weight, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t c = sizes.channels;
  const int64_t k = sizes.kernel;
  const View<const float, 3> windows = windows_of(sizes, rows);
  float* const sums = arena.take<float>(d_weight.count());
  MatmulSumOptions options;
  options.arena = &arena;
  matmul_sum({d_z.data(), {1, sizes.items, sizes.outputs, sizes.positions}, {0, d_z.stride(0), 1, d_z.stride(1)}},
             {windows.data(),
              {1, sizes.items, sizes.positions, k * c},
              {0, windows.stride(0), windows.stride(1), windows.stride(2)}},
             {sums, {1, sizes.outputs, k * c}}, options);
  copy({sums, {1, 1, 1, sizes.outputs, c, k}, {0, 0, 0, k * c, 1, c}},
       {d_weight.data(), {1, 1, 1, sizes.outputs, c, k}}, true);
}

void weight_gradient_by_taps(const Conv1dSizes& sizes, const View<const float, 3>& rows,
                             const View<const float, 3>& d_z, const View<float, 3>& d_weight, Arena& arena) {
  const int64_t outputs = sizes.group_outputs;
  const int64_t channels = sizes.group_channels;
  MatmulSumOptions options;
  options.arena = &arena;
  options.accumulate = true;
  for (int64_t g = 0; g < sizes.geometry.groups; ++g) {
    const View<const float, 4> a(d_z.data() + g * outputs, {sizes.kernel, sizes.items, outputs, sizes.positions},
                                 {0, d_z.stride(0), 1, d_z.stride(1)});
    const View<float, 3> c(d_weight.data() + g * sizes.group_weights(), {sizes.kernel, outputs, channels},
                           {1, channels * sizes.kernel, sizes.kernel});
    matmul_sum(a, tap_rows(sizes, rows, g), c, options);
  }
}

// The rows of a phase of d_x: they are a convolution of d_z with the taps of the phase in reverse order.
void input_gradient(const Conv1dSizes& sizes, const Phase& phase, const OutputGradient& d_z,
                    const View<const float, 3>& weight, const InputGradient<3>& d_x, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t n = sizes.items;
  const int64_t k = sizes.kernel;
  const int64_t m = phase.taps;
  const int64_t item_step = d_z.padded.stride(0);
  const int64_t row_step = d_z.padded.stride(1);
  const View<float, 3> c(&d_x.view(0, phase.row, 0), {n, phase.rows, sizes.channels},
                         {d_x.view.stride(0), sizes.geometry.stride * sizes.channels, 1});
  MatmulSumOptions options;
  options.accumulate = d_x.add;
  options.arena = &arena;
  if (sizes.geometry.groups == 1 && (phase.position_step == 1 || m <= 1)) {
    const int64_t outputs = sizes.outputs;
    const int64_t channels = sizes.channels;
    float* const taps = arena.take<float>(m * outputs * channels);  // [taps from the last on, outputs, C]
    const int64_t last_tap = phase.first_tap + (m - 1) * phase.tap_step;
    if (m > 0) {
      copy({weight.data() + last_tap, {1, 1, 1, m, outputs, channels}, {0, 0, 0, -phase.tap_step, channels * k, k}},
           {taps, {1, 1, 1, m, outputs, channels}});
    }
    const int64_t first = m > 0 ? d_z.before + phase.lowest_position() : 0;
    matmul_sum({d_z.padded.data() + first * row_step, {n, 1, phase.rows, m * outputs}, {item_step, 0, row_step, 1}},
               {taps, {n, 1, m * outputs, channels}, {0, 0, channels, 1}}, c, options);
    return;
  }
  const int64_t outputs = sizes.group_outputs;
  const int64_t channels = sizes.group_channels;
  const int64_t first = m > 0 ? d_z.before + phase.first_position : 0;
  for (int64_t g = 0; g < sizes.geometry.groups; ++g) {
    matmul_sum({d_z.padded.data() + first * row_step + g * outputs,
                {n, m, phase.rows, outputs},
                {item_step, -phase.position_step * row_step, row_step, 1}},
               {weight.data() + g * sizes.group_weights() + phase.first_tap,
                {n, m, outputs, channels},
                {0, phase.tap_step, channels * k, k}},
               c.slice(2, g * channels, channels), options);
  }
}

void check_backward(const char* function, const Conv1dSizes& sizes, const Conv1dSaved& saved,
                    const Conv1dParameters& parameters, const View<const float, 3>& d_y,
                    const Conv1dGradients& gradients) {
  check_contiguous(function, "x", saved.x);
  check_contiguous(function, "weight", parameters.weight);
  check_contiguous(function, "d_y", d_y, sizes.y());
  if (saved.derivative.data() != nullptr) check_contiguous(function, "derivative", saved.derivative, sizes.y());
  if (const View<float, 3>& d_x = gradients.x.view; d_x.data() != nullptr) {
    check_contiguous(function, "the gradient of x", d_x, saved.x.shape());
    check_overlap(function, "the gradient of x", d_x, saved.x, parameters.weight);
    check_apart(function, "the gradient of x", d_x, "d_y", d_y);
  }
  if (gradients.weight.data() != nullptr) {
    check_contiguous(function, "the gradient of the weight", gradients.weight, parameters.weight.shape());
    check_overlap(function, "the gradient of the weight", gradients.weight, saved.x, parameters.weight);
  }
  if (gradients.bias.data() != nullptr) {
    check_contiguous(function, "the gradient of the bias", gradients.bias, {sizes.outputs});
  }
}

}  // namespace

Shape<3> conv1d_shape(const char* function, const Shape<3>& x, const Shape<3>& weight, const Conv1dGeometry& geometry) {
  const auto& [stride, padding, dilation, groups] = geometry;
  const int64_t kernel = weight[2];
  check_sizes(function, "x", x);
  check_sizes(function, "weight", weight);
  check(stride >= 1 && stride <= kMostLength, function, "stride is ", stride, "; it must be 1 … ", kMostLength);
  check(dilation >= 1 && dilation <= kMostLength, function, "dilation is ", dilation, "; it must be 1 … ", kMostLength);
  check(padding >= 0 && padding <= kMostLength, function, "padding is ", padding, "; it must be 0 … ", kMostLength);
  check(kernel >= 1 && kernel <= kMostLength, function, "the weight ", weight, " has a kernel of ", kernel,
        "; expected [outputs, channels / groups, kernel] with a kernel of 1 … ", kMostLength);
  check(groups >= 1 && x[2] % groups == 0 && weight[0] % groups == 0, function, groups, " groups do not divide ", x[2],
        " channels and ", weight[0], " outputs");
  check(weight[1] == x[2] / groups, function, "x ", x, " and the weight ", weight, " do not fit: x [B, T, C] of ", x[2],
        " channels in ", groups, " groups takes a weight [outputs, ", x[2] / groups, ", kernel]");
  const int64_t span = dilation * (kernel - 1) + 1;
  const int64_t padded = x[1] + 2 * padding;
  check(span <= padded, function, "a kernel of ", kernel, " with dilation ", dilation, " spans ", span,
        " rows, but x has ", x[1], " and ", padding, " of padding at each end; give longer sequences or more padding");
  check_sizes(function, "x with its padding", Shape<3>{x[0], padded, x[2]});
  return {x[0], (padded - span) / stride + 1, weight[0]};
}

void conv1d_forward(View<const float, 3> x, const Conv1dParameters& parameters, View<float, 3> y,
                    const Conv1dOptions& options) {
  constexpr const char* kName = "conv1d_forward";
  const Conv1dSizes sizes(kName, x.shape(), parameters.weight.shape(), parameters.geometry);
  check_contiguous(kName, "x", x);
  check_contiguous(kName, "weight", parameters.weight);
  check_contiguous(kName, "y", y, sizes.y());
  check_overlap(kName, "y", y, x, parameters.weight);
  if (parameters.bias.data() != nullptr) check_contiguous(kName, "bias", parameters.bias, {sizes.outputs});
  const View<float, 3>& kept = options.derivative;
  if (kept.data() != nullptr) {
    check_contiguous(kName, "derivative", kept, sizes.y());
    check_overlap(kName, "derivative", kept, x, parameters.weight);
    check_apart(kName, "derivative", kept, "y", y);
  }
  if (y.count() == 0) return;
  CallArena arena(options.arena);
  const View<const float, 3> rows = padded_rows(x, parameters.geometry.padding, *arena);
  if (sizes.windows_are_rows()) {
    const View<const float, 2> weight = tap_major(sizes, parameters.weight, *arena);
    const View<const float, 3> windows = windows_of(sizes, rows);
    const MatmulSumOptions product{
        .bias = parameters.bias, .activation = options.activation, .derivative = kept, .arena = &*arena};
    matmul_sum({windows.data(),
                {sizes.items, 1, sizes.positions, sizes.window()},
                {windows.stride(0), 0, windows.stride(1), 1}},
               {weight.data(), {sizes.items, 1, sizes.window(), sizes.outputs}, {0, 0, 1, sizes.window()}}, y, product);
    return;
  }
  forward_by_taps(sizes, rows, parameters, y, *arena);
  const View<const float, 2> z = as_rows(View<const float, 3>(y));
  if (kept.data() != nullptr) {
    float* const ones = arena->take<float>(sizes.outputs);
    std::fill_n(ones, sizes.outputs, 1.0F);
    activation_backward(options.activation, z, {ones, z.shape(), {0, 1}}, as_rows(kept));
  }
  if (options.activation != Activation::none) activation_forward(options.activation, z, {}, as_rows(y));
}

void conv1d_backward(const Conv1dSaved& saved, const Conv1dParameters& parameters, View<const float, 3> d_y,
                     const Conv1dGradients& gradients, Arena* arena) {
  constexpr const char* kName = "conv1d_backward";
  const Conv1dSizes sizes(kName, saved.x.shape(), parameters.weight.shape(), parameters.geometry);
  check_backward(kName, sizes, saved, parameters, d_y, gradients);
  const InputGradient<3>& d_x = gradients.x;
  const bool wants_d_x = d_x.view.data() != nullptr && d_x.view.count() > 0;
  CallArena scratch(arena);
  const OutputGradient d_z(sizes, saved, d_y, wants_d_x, *scratch);
  const View<const float, 3> inner = d_z.padded.slice(1, d_z.before, sizes.positions);
  if (gradients.weight.data() != nullptr) {
    const Arena::Scope scope(*scratch);
    const View<const float, 3> rows = padded_rows(saved.x, parameters.geometry.padding, *scratch);
    const auto backward = sizes.windows_are_rows() ? weight_gradient : weight_gradient_by_taps;
    backward(sizes, rows, inner, gradients.weight, *scratch);
  }
  if (const View<float, 1>& bias = gradients.bias; bias.data() != nullptr) {
    const View<const float, 4> terms(inner.data(), {1, sizes.items, sizes.positions, sizes.outputs},
                                     {0, inner.stride(0), inner.stride(1), 1});
    broadcast_sum({terms}, {View<float, 4>(bias.data(), {1, 1, 1, sizes.outputs}), true});
  }
  for (int64_t t = 0; wants_d_x && t < phases(sizes); ++t) {
    input_gradient(sizes, Phase(sizes, t), d_z, parameters.weight, d_x, *scratch);
  }
}

}  // namespace heed
