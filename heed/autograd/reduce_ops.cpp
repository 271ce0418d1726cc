// sum, mean, max, softmax and log_softmax: over all elements or one dimension.
#include <algorithm>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/dimensions.h"
#include "heed/autograd/tape.h"
#include "heed/ops/reduce.h"
#include "heed/ops/softmax.h"

namespace heed {
namespace {

// What is reduced: x as [outer, n, inner], and the shape of the result.
struct Reduction {
  Shape<3> x;
  Dims shape;

  Shape<2> y() const { return {x[0], x[2]}; }
};

Reduction over_all(const Var& x) { return {{1, x.count(), 1}, {}}; }

Reduction over_dimension(const char* function, const Var& x, int dim, bool keepdim) {
  const int at = dimension_of(function, x.shape(), dim);
  Reduction result{around(x.shape(), at), {}};
  std::array<int64_t, Dims::kMostRank> sizes{};
  size_t rank = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) sizes[rank++] = x.size(i);
    if (i == at && keepdim) sizes[rank++] = 1;
  }
  result.shape = Dims(std::span<const int64_t>(sizes.data(), rank));
  return result;
}

struct ReduceSaved {
  Var x;
  Reduction reduction;
};

template <auto Backward>
void reduce_backward(const ReduceSaved& saved, const Var& y) {
  const Var::Destination to = saved.x.destination();
  Backward({y.arrived(), saved.reduction.y()}, {View<float, 3>(to.data, saved.reduction.x), to.add});
}

template <auto Forward, auto Backward>
Var reduce(const Var& x, const Reduction& reduction) {
  const Var y = x.tape().output(reduction.shape, {x});
  Forward({x.values().data(), reduction.x}, {y.output_values().data(), reduction.y()});
  return x.tape().record<reduce_backward<Backward>>(y, ReduceSaved{x, reduction});
}

struct MaxSaved {
  Var x;
  Reduction reduction;
  const int64_t* indices;
};

void max_op_backward(const MaxSaved& saved, const Var& y) {
  const Shape<2> shape = saved.reduction.y();
  const Var::Destination to = saved.x.destination();
  max_backward({y.arrived(), shape}, {saved.indices, shape}, {View<float, 3>(to.data, saved.reduction.x), to.add});
}

MaxOfDim reduce_max(const Var& x, const Reduction& reduction) {
  const Var y = x.tape().output(reduction.shape, {x});
  auto* const indices = x.tape().keep<int64_t>(y.count());
  max_forward({x.values().data(), reduction.x}, {y.output_values().data(), reduction.y()}, {indices, reduction.y()});
  x.tape().record<max_op_backward>(y, MaxSaved{x, reduction, indices});
  return {y, {indices, static_cast<size_t>(y.count())}};
}

struct SoftmaxSaved {
  Var x;
};

template <auto Backward>
void softmax_op_backward(const SoftmaxSaved& saved, const Var& y) {
  Backward(y.rows(), y.arrived_rows(), saved.x.input_gradient_rows());
}

template <auto Forward, auto Backward>
Var softmax_over(const char* function, const Var& x, int dim) {
  const int at = dimension_of(function, x.shape(), dim);
  // Rows are contiguous in the kernel: another dimension is brought there and back.
  if (at != x.rank() - 1) {
    return transpose(softmax_over<Forward, Backward>(function, transpose(x, at, -1), -1), at, -1);
  }
  const Var y = x.tape().output(x.shape(), {x});
  Forward(x.rows(), y.output_rows());
  return x.tape().record<softmax_op_backward<Backward>>(y, SoftmaxSaved{x});
}

}  // namespace

Var sum(const Var& x) { return reduce<sum_forward, sum_backward>(x, over_all(x)); }
Var sum(const Var& x, int dim, bool keepdim) {
  return reduce<sum_forward, sum_backward>(x, over_dimension("sum", x, dim, keepdim));
}

Var mean(const Var& x) { return reduce<mean_forward, mean_backward>(x, over_all(x)); }
Var mean(const Var& x, int dim, bool keepdim) {
  return reduce<mean_forward, mean_backward>(x, over_dimension("mean", x, dim, keepdim));
}

Var max(const Var& x) {
  check(x.count() > 0, "max", "the shape is ", x.shape(), ": nothing has no maximum");
  return reduce_max(x, over_all(x)).values;
}
MaxOfDim max(const Var& x, int dim, bool keepdim) {
  const Reduction reduction = over_dimension("max", x, dim, keepdim);
  check(reduction.x[1] > 0, "max", "the shape is ", x.shape(), ": nothing has no maximum in dimension ", dim);
  return reduce_max(x, reduction);
}

Var softmax(const Var& x, int dim) { return softmax_over<softmax_forward, softmax_backward>("softmax", x, dim); }
Var log_softmax(const Var& x, int dim) {
  return softmax_over<log_softmax_forward, log_softmax_backward>("log_softmax", x, dim);
}

}  // namespace heed
