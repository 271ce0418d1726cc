#include "heed/ops/norm.h"

#include <cmath>
#include <limits>

#include "heed/ops/norm_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

float epsilon_of(const NormOptions& options) {
  return options.eps.value_or(options.kind == NormKind::layer ? 1e-5F : std::numeric_limits<float>::epsilon());
}

// mean or rstd; null: not given.
void check_statistic(const char* function, const char* name, const View<const float, 1>& values, int64_t rows) {
  if (values.data() == nullptr) return;
  check(values.size(0) == rows, function, name, " has ", values.size(0), " values for ", rows, " rows");
  check_extent(function, name, values);
}

void check_forward(const NormInputs& inputs, const NormOutputs& outputs, const NormOptions& options) {
  constexpr const char* kName = "norm_forward";
  const Shape<2>& shape = inputs.x.shape();
  const float eps = epsilon_of(options);
  check(std::isfinite(eps) && eps >= 0.0F, kName, "eps is ", eps, "; it must be finite and not below 0");
  check_rows(kName, "x", inputs.x, shape);
  check_rows(kName, "y", outputs.y, shape);
  check_same_or_apart(kName, "y", outputs.y, "x", inputs.x);
  const bool has_residual = inputs.residual.data() != nullptr;
  if (has_residual) {
    check_rows(kName, "residual", inputs.residual, shape);
    check_same_or_apart(kName, "y", outputs.y, "residual", inputs.residual);
  }
  if (outputs.sum.data() != nullptr) {
    check(has_residual, kName, "there is a sum but no residual; without one, the sum is x itself");
    check_rows(kName, "sum", outputs.sum, shape);
    check_apart(kName, "y", outputs.y, "sum", outputs.sum);
    check_same_or_apart(kName, "sum", outputs.sum, "x", inputs.x);
    check_same_or_apart(kName, "sum", outputs.sum, "residual", inputs.residual);
  }
  if (inputs.gamma.data() != nullptr) check_vector(kName, "gamma", inputs.gamma, shape[1]);
  if (inputs.beta.data() != nullptr) check_vector(kName, "beta", inputs.beta, shape[1]);
  check_statistic(kName, "mean", outputs.mean, shape[0]);
  check_statistic(kName, "rstd", outputs.rstd, shape[0]);
}

void check_input_gradient(const char* name, const InputGradient<2>& gradient, const NormSaved& saved,
                          const View<const float, 2>& d_y, const View<const float, 2>& d_sum) {
  constexpr const char* kName = "norm_backward";
  if (gradient.view.data() == nullptr) return;
  check_rows(kName, name, gradient.view, saved.s.shape());
  check_same_or_apart(kName, name, gradient.view, "s", saved.s);
  check_same_or_apart(kName, name, gradient.view, "d_y", d_y);
  if (d_sum.data() != nullptr) check_same_or_apart(kName, name, gradient.view, "d_sum", d_sum);
}

void check_backward(const NormSaved& saved, const View<const float, 2>& d_y, const View<const float, 2>& d_sum,
                    const NormGradients& gradients) {
  constexpr const char* kName = "norm_backward";
  const Shape<2>& shape = saved.s.shape();
  check_rows(kName, "s", saved.s, shape);
  check_rows(kName, "d_y", d_y, shape);
  if (d_sum.data() != nullptr) check_rows(kName, "d_sum", d_sum, shape);
  if (saved.gamma.data() != nullptr) check_vector(kName, "gamma", saved.gamma, shape[1]);
  check(shape[0] == 0 || saved.rstd.data() != nullptr, kName, "rstd is null; keep it in norm_forward");
  check(shape[0] == 0 || saved.kind == NormKind::rms || saved.mean.data() != nullptr, kName,
        "mean is null; keep it in norm_forward");
  check_statistic(kName, "mean", saved.mean, shape[0]);
  check_statistic(kName, "rstd", saved.rstd, shape[0]);
  check_input_gradient("the gradient of x", gradients.x, saved, d_y, d_sum);
  check_input_gradient("the gradient of the residual", gradients.residual, saved, d_y, d_sum);
  if (gradients.x.view.data() != nullptr && gradients.residual.view.data() != nullptr) {
    check_apart(kName, "the gradient of the residual", gradients.residual.view, "the gradient of x", gradients.x.view);
  }
  if (gradients.gamma.data() != nullptr) check_vector(kName, "the gradient of gamma", gradients.gamma, shape[1]);
  if (gradients.beta.data() != nullptr) check_vector(kName, "the gradient of beta", gradients.beta, shape[1]);
}

// The sums of gamma and beta of each block of rows.
struct BlockSums {
  BlockSums(Arena& arena, const NormGradients& gradients, int64_t blocks, int64_t columns)
      : count(blocks),
        width(columns),
        gamma(gradients.gamma.data() != nullptr ? arena.take<float>(blocks * columns) : nullptr),
        beta(gradients.beta.data() != nullptr ? arena.take<float>(blocks * columns) : nullptr) {}

  // The zeroed row of a block; null if there is none.
  float* start(float* sums, int64_t block) const {
    if (sums == nullptr) return nullptr;
    std::fill_n(sums + block * width, width, 0.0F);
    return sums + block * width;
  }

  // to += the sums of all blocks, added in order, for columns begin … end - 1.
  void add(const float* sums, View<float, 1> to, int64_t begin, int64_t end) const {
    if (sums == nullptr) return;
    float total[kColumns] = {};
    for (int64_t block = 0; block < count; ++block) {
      const float* const row = sums + block * width + begin;
      for (int64_t j = 0; j < end - begin; ++j) total[j] += row[j];
    }
    for (int64_t j = begin; j < end; ++j) to(j) += total[j - begin];
  }

  static constexpr int64_t kColumns = 128;  // of a task of add()
  int64_t count;
  int64_t width;
  float* gamma;
  float* beta;
};

}  // namespace

void norm_forward(const NormInputs& inputs, const NormOutputs& outputs, const NormOptions& options) {
  check_forward(inputs, outputs, options);
  const NormForwardCall call{inputs, outputs, options.kind, epsilon_of(options)};
  for_each_range_of_rows(inputs.x.shape(),
                         [&]<Isa isa>(int64_t begin, int64_t end) { norm_forward_kernel<isa>(call, begin, end); });
}

void norm_backward(const NormSaved& saved, View<const float, 2> d_y, View<const float, 2> d_sum,
                   const NormGradients& gradients, Arena* arena) {
  check_backward(saved, d_y, d_sum, gradients);
  const NormBackwardCall call{saved, d_y, d_sum, gradients};
  if (gradients.gamma.data() == nullptr && gradients.beta.data() == nullptr) {
    if (gradients.x.view.data() == nullptr && gradients.residual.view.data() == nullptr) return;
    return for_each_range_of_rows(saved.s.shape(), [&]<Isa isa>(int64_t begin, int64_t end) {
      norm_backward_kernel<isa>(call, begin, end, nullptr, nullptr);
    });
  }
  const auto [rows, width] = saved.s.shape();
  if (rows == 0 || width == 0) return;
  CallArena scratch(arena);
  const BlockSums sums(*scratch, gradients, divide_up(rows, kNormBlockRows), width);
  dispatch([&, rows = rows]<Isa isa>() {
    parallel_for(sums.count, [&](int64_t block, int) {
      norm_backward_kernel<isa>(call, block * kNormBlockRows, std::min((block + 1) * kNormBlockRows, rows),
                                sums.start(sums.gamma, block), sums.start(sums.beta, block));
    });
  });
  parallel_for(divide_up(width, BlockSums::kColumns), [&, width = width](int64_t task, int) {
    const int64_t begin = task * BlockSums::kColumns;
    const int64_t end = std::min(begin + BlockSums::kColumns, width);
    sums.add(sums.gamma, gradients.gamma, begin, end);
    sums.add(sums.beta, gradients.beta, begin, end);
  });
}

}  // namespace heed
