#include "heed/autograd/convolution_ops.h"

#include <algorithm>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/ops/pooling.h"

namespace heed {
namespace {

struct Conv1dOpSaved {
  Var x, weight, bias;
  Conv1dGeometry geometry;
  float* derivative = nullptr;  // of the activation, of the shape of y; null without one
};

void conv1d_op_backward(const Conv1dOpSaved& saved, const Var& y) {
  const Conv1dSaved forward{saved.x.value<3>(), {saved.derivative, y.shape().shape<3>()}};
  Conv1dGradients gradients;
  gradients.weight = saved.weight.added<3>();
  if (saved.bias.given()) gradients.bias = saved.bias.added<1>();
  gradients.x = saved.x.input_gradient<3>();  // last: it is then added where x is the weight too
  conv1d_backward(forward, {saved.weight.value<3>(), {}, saved.geometry}, y.arrived<3>(), gradients,
                  &y.tape().scratch());
}

// x as planes [N, H, W, C], and the result as them and in its own dimensions.
struct Pooling {
  PoolWindow window;
  Shape<4> x;
  Shape<4> y;
  Dims dims;
};

void check_sequence(const char* function, const Var& x) {
  check(x.rank() == 3, function, "x has shape ", x.shape(), ", expected [B, T, C]");
}

int64_t stride_of(const PoolOptions& options) { return options.stride == 0 ? options.kernel : options.stride; }

Pooling over_time(const char* function, const Var& x, const PoolOptions& options) {
  check_sequence(function, x);
  const PoolWindow window{{options.kernel, 1}, {stride_of(options), 1}, {options.padding, 0}};
  const Shape<4> planes{x.size(0), x.size(1), 1, x.size(2)};
  const Shape<4> y = pool_shape(function, planes, window);
  return {window, planes, y, {y[0], y[1], y[3]}};
}

Pooling over_image(const char* function, const Var& x, const PoolOptions& options) {
  check(x.rank() >= 2, function, "x has shape ", x.shape(), ", expected [..., H, W]");
  const int64_t stride = stride_of(options);
  const PoolWindow window{{options.kernel, options.kernel}, {stride, stride}, {options.padding, options.padding}};
  Dims dims = x.shape();
  int64_t planes = 1;
  for (int i = 0; i + 2 < x.rank(); ++i) planes *= x.size(i);
  const Shape<4> shape{planes, x.size(-2), x.size(-1), 1};
  const Shape<4> y = pool_shape(function, shape, window);
  dims[-2] = y[1];
  dims[-1] = y[2];
  return {window, shape, y, dims};
}

struct MaxPoolSaved {
  Var x;
  Shape<4> x_shape, y_shape;
  const int32_t* index;  // of the shape of y
};

void max_pool_op_backward(const MaxPoolSaved& saved, const Var& y) {
  const Var::Destination to = saved.x.destination();
  max_pool_backward({y.arrived(), saved.y_shape}, {saved.index, saved.y_shape},
                    {View<float, 4>(to.data, saved.x_shape), to.add});
}

Var max_pool(const Var& x, const Pooling& pooling) {
  Tape& tape = x.tape();
  const Var y = tape.output(pooling.dims, {x});
  const Arena::Scope scope(tape.scratch());  // of an index that is not saved
  Arena& memory = y.needs_gradient() ? tape.step_memory() : tape.scratch();
  auto* const index = memory.take<int32_t>(y.count());
  max_pool_forward({x.values().data(), pooling.x}, pooling.window, {y.output_values().data(), pooling.y},
                   {index, pooling.y});
  return tape.record<max_pool_op_backward>(y, MaxPoolSaved{x, pooling.x, pooling.y, index});
}

struct AvgPoolSaved {
  Var x;
  Pooling pooling;
};

void avg_pool_op_backward(const AvgPoolSaved& saved, const Var& y) {
  const Var::Destination to = saved.x.destination();
  avg_pool_backward({y.arrived(), saved.pooling.y}, saved.pooling.window,
                    {View<float, 4>(to.data, saved.pooling.x), to.add});
}

Var avg_pool(const Var& x, const Pooling& pooling) {
  const Var y = x.tape().output(pooling.dims, {x});
  avg_pool_forward({x.values().data(), pooling.x}, pooling.window, {y.output_values().data(), pooling.y});
  return x.tape().record<avg_pool_op_backward>(y, AvgPoolSaved{x, pooling});
}

struct GlobalMaxSaved {
  Var x;
  View<const int64_t, 2> index;  // [B, C]
};

void global_max_op_backward(const GlobalMaxSaved& saved, const Var& y) {
  global_max_backward(y.arrived<2>(), saved.index, saved.x.input_gradient<3>());
}

struct GlobalMeanSaved {
  Var x;
  View<const int64_t, 1> lengths;  // [B] or null
};

void global_mean_op_backward(const GlobalMeanSaved& saved, const Var& y) {
  global_mean_backward(y.arrived<2>(), saved.lengths, saved.x.input_gradient<3>());
}

// The lengths as a view: null if there are none.
View<const int64_t, 1> lengths_of(const char* function, const Var& x, std::span<const int64_t> lengths) {
  check_sequence(function, x);
  if (lengths.empty()) return {};
  const auto count = static_cast<int64_t>(lengths.size());
  check(count == x.size(0), function, count, " lengths for the ", x.size(0), " items of x ", x.shape());
  return {lengths.data(), {count}};
}

}  // namespace

Var conv1d(const Var& x, const Var& weight, const Var& bias, const Conv1dGeometry& geometry, Activation activation) {
  constexpr const char* kName = "conv1d";
  check_sequence(kName, x);
  check(weight.rank() == 3, kName, "weight has shape ", weight.shape(), ", expected [outputs, C / groups, kernel]");
  const Shape<3> shape = conv1d_shape(kName, x.shape().shape<3>(), weight.shape().shape<3>(), geometry);
  check(!bias.given() || bias.shape() == Dims{weight.size(0)}, kName, "bias has shape ", bias.shape(), ", expected ",
        Dims{weight.size(0)});
  Tape& tape = x.tape();
  const Var y = tape.output(Dims(shape), {x, weight, bias});
  const bool saves = activation != Activation::none && y.needs_gradient();
  const Conv1dOpSaved saved{x, weight, bias, geometry, saves ? tape.keep<float>(y.count()) : nullptr};
  const Conv1dParameters parameters{weight.value<3>(), bias.given() ? bias.value<1>() : View<const float, 1>(),
                                    geometry};
  conv1d_forward(x.value<3>(), parameters, y.output<3>(), {activation, {saved.derivative, shape}, &tape.scratch()});
  return tape.record<conv1d_op_backward>(y, saved);
}

Var max_pool1d(const Var& x, const PoolOptions& options) { return max_pool(x, over_time("max_pool1d", x, options)); }
Var avg_pool1d(const Var& x, const PoolOptions& options) { return avg_pool(x, over_time("avg_pool1d", x, options)); }

Var max_pool2d(const Var& x, const PoolOptions& options) { return max_pool(x, over_image("max_pool2d", x, options)); }
Var avg_pool2d(const Var& x, const PoolOptions& options) { return avg_pool(x, over_image("avg_pool2d", x, options)); }

Var global_max_pool(const Var& x, std::span<const int64_t> lengths) {
  const View<const int64_t, 1> given = lengths_of("global_max_pool", x, lengths);
  Tape& tape = x.tape();
  const Var y = tape.output({x.size(0), x.size(2)}, {x});
  const Arena::Scope scope(tape.scratch());  // of an index that is not saved
  Arena& memory = y.needs_gradient() ? tape.step_memory() : tape.scratch();
  const View<int64_t, 2> index(memory.take<int64_t>(y.count()), y.shape().shape<2>());
  global_max_forward(x.value<3>(), given, y.output<2>(), index);
  return tape.record<global_max_op_backward>(y, GlobalMaxSaved{x, index});
}

Var global_mean_pool(const Var& x, std::span<const int64_t> lengths) {
  const View<const int64_t, 1> given = lengths_of("global_mean_pool", x, lengths);
  Tape& tape = x.tape();
  const Var y = tape.output({x.size(0), x.size(2)}, {x});
  global_mean_forward(x.value<3>(), given, y.output<2>());
  GlobalMeanSaved saved{x, given};
  if (y.needs_gradient() && given.data() != nullptr) {
    auto* const kept = tape.keep<int64_t>(given.size(0));
    std::copy(lengths.begin(), lengths.end(), kept);
    saved.lengths = {kept, given.shape()};
  }
  return tape.record<global_mean_op_backward>(y, saved);
}

}  // namespace heed
