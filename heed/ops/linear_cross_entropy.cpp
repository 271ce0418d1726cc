#include "heed/ops/linear_cross_entropy.h"

#include <algorithm>
#include <type_traits>

#include "heed/ops/cross_entropy_rows.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

constexpr const char* kName = "linear_cross_entropy";

void check_inputs(const LinearCrossEntropyInputs& inputs) {
  const View<const float, 2>& x = inputs.x;
  const View<const float, 2>& weight = inputs.weight;
  check_view(kName, "x", x);
  check_view(kName, "weight", weight);
  check_sizes(kName, "logits", Shape<2>{x.size(0), weight.size(0)});
  check(x.size(1) == weight.size(1), kName, "x has shape ", x.shape(), ", but the weight ", weight.shape(),
        " takes width ", weight.size(1));
  check(inputs.bias.data() == nullptr || inputs.bias.size(0) == weight.size(0), kName, "bias has ", inputs.bias.size(0),
        " values for ", weight.size(0), " classes");
  check_extent(kName, "bias", inputs.bias);
}

// One gradient, which is written while the inputs are still to be read.
template <int N>
void check_gradient(const char* name, const View<float, N>& gradient, const std::type_identity_t<Shape<N>>& expected,
                    const LinearCrossEntropyInputs& inputs) {
  if (gradient.data() == nullptr) return;
  check(gradient.shape() == expected, kName, name, " has shape ", gradient.shape(), ", expected ", expected);
  check_extent(kName, name, gradient);
  check_apart(kName, name, gradient, "x", inputs.x);
  check_apart(kName, name, gradient, "weight", inputs.weight);
  if (inputs.bias.data() != nullptr) check_apart(kName, name, gradient, "bias", inputs.bias);
}

}  // namespace

void linear_cross_entropy(const LinearCrossEntropyInputs& inputs, View<float, 1> loss,
                          const CrossEntropyOptions& options, const LinearGradients& gradients, Arena* arena) {
  check_inputs(inputs);
  const int64_t count = inputs.x.size(0);
  const int64_t classes = inputs.weight.size(0);
  const CrossEntropyRows rows(kName, inputs.labels, {count, classes}, options);
  check_loss(kName, "loss", loss, rows.labels().loss_shape());
  const View<float, 2>& d_x = gradients.x.view;
  check(gradients.x_derivative.data() == nullptr, kName, "x_derivative is not supported here");
  check_gradient("the gradient of x", d_x, inputs.x.shape(), inputs);
  check_gradient("the gradient of the weight", gradients.weight, inputs.weight.shape(), inputs);
  check_gradient("the gradient of the bias", gradients.bias, {classes}, inputs);
  const bool has_gradients = d_x.data() || gradients.weight.data() || gradients.bias.data();

  CallArena scratch(arena);
  const int64_t block_rows = std::min(count, kLinearCrossEntropyRows);
  double* const losses = scratch->take<double>(count);
  float* const block = scratch->take<float>(block_rows * classes);
  std::fill_n(losses, count, 0.0);
  const LinearParameters parameters{inputs.weight, nullptr, inputs.bias};
  for (int64_t begin = 0; begin < count; begin += block_rows) {
    const Shape<2> shape{std::min(block_rows, count - begin), classes};
    const View<float, 2> logits(block, shape);  // and then their gradient
    const View<const float, 2> x = inputs.x.slice(0, begin, shape[0]);
    linear_forward(x, parameters, logits, {.arena = &*scratch});
    for_each_range_of_rows(shape, [&]<Isa isa>(int64_t first, int64_t end) {
      for (int64_t row = first; row < end; ++row) {
        const View<float, 1> values = logits[row];
        float softmax[2] = {};
        losses[begin + row] = rows.loss<isa>(begin + row, values.data(), softmax);
        if (has_gradients) rows.gradient<isa>(begin + row, values.data(), softmax, rows.labels().share(), values);
      }
    });
    if (!has_gradients) continue;
    LinearGradients block_gradients = gradients;
    if (d_x.data() != nullptr) block_gradients.x.view = d_x.slice(0, begin, shape[0]);
    linear_backward({x}, inputs.weight, logits, block_gradients, &*scratch);
  }
  rows.reduce(losses, loss);
}

}  // namespace heed
