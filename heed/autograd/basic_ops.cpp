#include "heed/autograd/basic_ops.h"

#include <algorithm>

#include "heed/autograd/dimensions.h"
#include "heed/autograd/tape.h"
#include "heed/ops/elementwise.h"
#include "heed/ops/gather.h"
#include "heed/ops/masked_fill.h"
#include "heed/ops/matmul.h"

namespace heed {
namespace {

// The shapes of two Vars that are broadcast with each other. Dimensions that are broadcast alike are merged, so that
// rank 4 is enough.
struct Broadcast {
  Dims shape;  // of the result
  Shape<4> a{1, 1, 1, 1};
  Shape<4> b{1, 1, 1, 1};
  Shape<4> y{1, 1, 1, 1};
};

Broadcast broadcast(const char* function, const Dims& a, const Dims& b) {
  Broadcast result;
  const Shape<Dims::kMostRank> wide_a = widened<Dims::kMostRank>(a);
  const Shape<Dims::kMostRank> wide_b = widened<Dims::kMostRank>(b);
  result.shape = a.rank() > b.rank() ? a : b;
  const auto rank = static_cast<size_t>(result.shape.rank());
  int group = 4;  // from the last dimension on
  for (size_t i = Dims::kMostRank; i-- > Dims::kMostRank - rank;) {
    check(wide_a[i] == wide_b[i] || wide_a[i] == 1 || wide_b[i] == 1, function, "the shapes ", a, " and ", b,
          " do not broadcast: sizes that differ must be 1 in one of them");
    const int64_t size = wide_a[i] == 1 ? wide_b[i] : wide_a[i];
    result.shape[static_cast<int>(i + rank) - Dims::kMostRank] = size;
    if (size == 1) continue;
    const auto last = static_cast<size_t>(group);
    const bool merges =
        group < 4 && (result.a[last] != 1) == (wide_a[i] != 1) && (result.b[last] != 1) == (wide_b[i] != 1);
    if (!merges) --group;
    check(group >= 0, function, "the shapes ", a, " and ", b,
          " alternate in which one is broadcast more than 3 times: expand one of them first");
    const auto at = static_cast<size_t>(group);
    result.a[at] *= wide_a[i];
    result.b[at] *= wide_b[i];
    result.y[at] *= size;
  }
  return result;
}

struct ElementwiseSaved {
  BinaryOp op;
  Var a, b;
  Shape<4> a_shape, b_shape, y_shape;
};

void elementwise_backward(const ElementwiseSaved& saved, const Var& y) {
  const View<const float, 4> a(saved.a.values().data(), saved.a_shape);
  const View<const float, 4> b(saved.b.values().data(), saved.b_shape);
  const View<const float, 4> d_y(y.arrived(), saved.y_shape);
  // One after the other, as both may be the same Var.
  const auto send_a = [&] {
    const Var::Destination to = saved.a.destination();
    binary_backward(saved.op, a, b, d_y, {View<float, 4>(to.data, saved.a_shape), to.add}, {});
  };
  const auto send_b = [&] {
    const Var::Destination to = saved.b.destination();
    binary_backward(saved.op, a, b, d_y, {}, {View<float, 4>(to.data, saved.b_shape), to.add});
  };
  // An input whose derivative is 1 comes last: it may take over the memory of d_y.
  const bool a_last = saved.a.shape() == y.shape() && (saved.op == BinaryOp::sub || !saved.b.needs_gradient());
  const bool b_last = saved.b.shape() == y.shape() && saved.op == BinaryOp::add;
  if (saved.op != BinaryOp::mul && a_last) {
    send_b();
    saved.a.take_gradient_of(y);
  } else if (b_last) {
    send_a();
    saved.b.take_gradient_of(y);
  } else {
    send_a();
    send_b();
  }
}

Var elementwise(const char* function, BinaryOp op, const Var& a, const Var& b) {
  const Broadcast shapes = broadcast(function, a.shape(), b.shape());
  const Var y = a.tape().output(shapes.shape, {a, b});
  binary_forward(op, {a.values().data(), shapes.a}, {b.values().data(), shapes.b},
                 {y.output_values().data(), shapes.y});
  return a.tape().record<elementwise_backward>(y, ElementwiseSaved{op, a, b, shapes.a, shapes.b, shapes.y});
}

Var number(const Var& beside, float value) {
  float* const kept = beside.tape().keep<float>(1);
  *kept = value;
  return beside.tape().constant(kept, Dims{});
}

// a [batch, M, K] and b [batch, K, N] as stored: with the last two dimensions exchanged if transposed.
struct MatmulSaved {
  Var a, b;
  Shape<3> a_shape, b_shape, y_shape;
  Transposed transposed;
};

template <class T>
View<T, 3> factor(T* data, const Shape<3>& shape, bool transposed) {
  const View<T, 3> stored(data, shape);
  return transposed ? stored.permuted({0, 2, 1}) : stored;
}

void matmul_backward(const MatmulSaved& saved, const Var& y) {
  const View<const float, 3> d_y(y.arrived(), saved.y_shape);
  BatchedMatmulOptions options;
  options.arena = &y.tape().scratch();
  if (const Var::Destination to = saved.a.destination(); to.data != nullptr) {
    options.accumulate = to.add;
    const View<const float, 3> b = factor(saved.b.values().data(), saved.b_shape, !saved.transposed.b);
    matmul(d_y, b, factor(to.data, saved.a_shape, saved.transposed.a), options);
  }
  if (const Var::Destination to = saved.b.destination(); to.data != nullptr) {
    options.accumulate = to.add;
    const View<const float, 3> a = factor(saved.a.values().data(), saved.a_shape, !saved.transposed.a);
    matmul(a, d_y, factor(to.data, saved.b_shape, saved.transposed.b), options);
  }
}

struct MaskedFillSaved {
  Var x;
  View<const bool, 4> mask;
  Shape<4> shape;
};

void masked_fill_op_backward(const MaskedFillSaved& saved, const Var& y) {
  const Var::Destination to = saved.x.destination();
  masked_fill_backward(saved.mask, {y.arrived(), saved.shape}, {View<float, 4>(to.data, saved.shape), to.add});
}

struct GatherSaved {
  Var x;
  View<const int64_t, 3> index;
  Shape<3> shape;
};

void gather_op_backward(const GatherSaved& saved, const Var& y) {
  const Var::Destination to = saved.x.destination();
  gather_backward(saved.index, {y.arrived(), saved.index.shape()}, {View<float, 3>(to.data, saved.shape), to.add});
}

template <class T>
const T* kept_copy(Tape& tape, const TensorOf<T>& tensor) {
  T* const kept = tape.keep<T>(tensor.count());
  std::copy(tensor.values().begin(), tensor.values().end(), kept);
  return kept;
}

}  // namespace

Var add(const Var& a, const Var& b) { return elementwise("add", BinaryOp::add, a, b); }
Var sub(const Var& a, const Var& b) { return elementwise("sub", BinaryOp::sub, a, b); }
Var mul(const Var& a, const Var& b) { return elementwise("mul", BinaryOp::mul, a, b); }
Var operator+(const Var& a, float b) { return add(a, number(a, b)); }
Var operator-(const Var& a, float b) { return sub(a, number(a, b)); }
Var operator*(const Var& a, float b) { return mul(a, number(a, b)); }
Var operator-(float a, const Var& b) { return sub(number(b, a), b); }

Var matmul(const Var& a, const Var& b, const Transposed& transposed) {
  constexpr const char* kName = "matmul";
  check(a.rank() >= 2 && b.rank() >= 2, kName, "a has shape ", a.shape(), " and b ", b.shape(),
        ": both need at least 2 dimensions");
  const int64_t rows = a.size(transposed.a ? -1 : -2);
  const int64_t depth = a.size(transposed.a ? -2 : -1);
  const int64_t columns = b.size(transposed.b ? -2 : -1);
  const auto text = [](bool yes) { return yes ? " transposed" : ""; };
  check(depth == b.size(transposed.b ? -1 : -2), kName, "a", text(transposed.a), " ", a.shape(), " and b",
        text(transposed.b), " ", b.shape(), " do not fit: K is ", depth, " in a and ", b.size(transposed.b ? -1 : -2),
        " in b");
  const bool one_b = b.rank() == 2 && a.rank() > 2;
  check(!one_b || !transposed.a, kName, "a ", a.shape(), " is transposed and b ", b.shape(),
        " has no batch: transpose() a first");
  check(one_b || std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin(), b.shape().end() - 2), kName,
        "a ", a.shape(), " and b ", b.shape(), " differ before their last two dimensions");
  Dims shape = a.shape();
  shape[-2] = rows;
  shape[-1] = columns;
  int64_t batch = 1;
  for (int i = 0; i + 2 < a.rank(); ++i) batch *= a.size(i);
  // With one b the rows of all items are those of one matrix.
  const int64_t items = one_b ? 1 : batch;
  const int64_t height = one_b ? batch * rows : rows;
  MatmulSaved saved{a, b, {items, height, depth}, {items, depth, columns}, {items, height, columns}, transposed};
  if (transposed.a) std::swap(saved.a_shape[1], saved.a_shape[2]);
  if (transposed.b) std::swap(saved.b_shape[1], saved.b_shape[2]);
  const Var y = a.tape().output(shape, {a, b});
  BatchedMatmulOptions options;
  options.arena = &a.tape().scratch();
  matmul(factor(a.values().data(), saved.a_shape, transposed.a), factor(b.values().data(), saved.b_shape, transposed.b),
         View<float, 3>(y.output_values().data(), saved.y_shape), options);
  return a.tape().record<matmul_backward>(y, saved);
}

Var masked_fill(const Var& x, const TensorOf<bool>& mask, float value) {
  constexpr const char* kName = "masked_fill";
  const Dims mask_shape(mask.shape());
  const Broadcast shapes = broadcast(kName, x.shape(), mask_shape);
  check(shapes.shape == x.shape(), kName, "the mask ", mask_shape, " does not broadcast to the shape ", x.shape());
  const Var y = x.tape().output(x.shape(), {x});
  masked_fill_forward({x.values().data(), shapes.a}, {mask.values().data(), shapes.b}, value,
                      {y.output_values().data(), shapes.y});
  if (!y.needs_gradient()) return y;
  const View<const bool, 4> kept(kept_copy(x.tape(), mask), shapes.b);
  return x.tape().record<masked_fill_op_backward>(y, MaskedFillSaved{x, kept, shapes.y});
}

Var gather(const Var& x, int dim, const TensorOf<int64_t>& index) {
  constexpr const char* kName = "gather";
  const Dims shape(index.shape());
  const int at = dimension_of(kName, x.shape(), dim);
  Dims expected = x.shape();
  if (shape.rank() == x.rank()) expected[at] = shape[at];
  check(shape == expected, kName, "index has shape ", shape, " for the shape ", x.shape(),
        ": only the sizes of dimension ", dim, " may differ");
  const Var y = x.tape().output(shape, {x});
  gather_forward({x.values().data(), around(x.shape(), at)}, {index.values().data(), around(shape, at)},
                 {y.output_values().data(), around(shape, at)});
  if (!y.needs_gradient()) return y;
  const View<const int64_t, 3> kept(kept_copy(x.tape(), index), around(shape, at));
  return x.tape().record<gather_op_backward>(y, GatherSaved{x, kept, around(x.shape(), at)});
}

}  // namespace heed
