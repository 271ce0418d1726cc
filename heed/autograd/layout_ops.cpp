// permute, transpose, slice and concat: copies between strided views (heed/ops/copy.h).
#include <algorithm>
#include <array>
#include <memory>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/dimensions.h"
#include "heed/autograd/tape.h"
#include "heed/ops/copy.h"

namespace heed {
namespace {

constexpr int kRank = Dims::kMostRank;

template <class T>
View<T, kRank> wide(T* data, const Dims& shape) {
  return {data, widened<kRank>(shape)};
}

// The dimension of wide() for a dimension of `shape`.
int wide_dimension(const Dims& shape, int dim) { return kRank - shape.rank() + dim; }

struct PermuteSaved {
  Var x;
  std::array<int, kRank> order;  // of wide()
};

void permute_backward(const PermuteSaved& saved, const Var& y) {
  const Var::Destination d_x = saved.x.destination();
  if (d_x.data == nullptr) return;
  copy(wide(y.arrived(), y.shape()), wide(d_x.data, saved.x.shape()).permuted(saved.order), d_x.add);
}

struct SliceSaved {
  Var x;
  int dim;
  int64_t start;
};

void slice_backward(const SliceSaved& saved, const Var& y) {
  float* const d_x = saved.x.added();
  if (d_x == nullptr) return;
  const int dim = wide_dimension(y.shape(), saved.dim);
  const View<float, kRank> to = wide(d_x, saved.x.shape()).slice(dim, saved.start, y.size(saved.dim));
  copy(wide(y.arrived(), y.shape()), to, true);
}

struct ConcatSaved {
  const Var* parts;
  size_t count;
  int dim;
};

void concat_backward(const ConcatSaved& saved, const Var& y) {
  const int dim = wide_dimension(y.shape(), saved.dim);
  int64_t start = 0;
  for (const Var& part : std::span(saved.parts, saved.count)) {
    const int64_t size = part.size(saved.dim);
    const Var::Destination to = part.destination();
    if (to.data != nullptr) {
      copy(wide(y.arrived(), y.shape()).slice(dim, start, size), wide(to.data, part.shape()), to.add);
    }
    start += size;
  }
}

}  // namespace

Var permute(const Var& x, std::span<const int> order) {
  constexpr const char* kName = "permute";
  check(static_cast<int>(order.size()) == x.rank(), kName, "order has ", order.size(), " dimensions, but the shape is ",
        x.shape());
  PermuteSaved saved{x, {}};
  for (int i = 0; i < kRank; ++i) saved.order[static_cast<size_t>(i)] = i;
  Dims shape = x.shape();
  std::array<bool, kRank> used{};
  for (int i = 0; i < x.rank(); ++i) {
    const int from = dimension_of(kName, x.shape(), order[static_cast<size_t>(i)]);
    check(!used[static_cast<size_t>(from)], kName, "order has dimension ", from, " twice for the shape ", x.shape());
    used[static_cast<size_t>(from)] = true;
    shape[i] = x.size(from);
    saved.order[static_cast<size_t>(wide_dimension(shape, i))] = wide_dimension(shape, from);
  }
  const Var y = x.tape().output(shape, {x});
  copy(wide(x.values().data(), x.shape()).permuted(saved.order), wide(y.output_values().data(), shape));
  return x.tape().record<permute_backward>(y, saved);
}

Var permute(const Var& x, std::initializer_list<int> order) { return permute(x, {order.begin(), order.size()}); }

Var transpose(const Var& x, int dim0, int dim1) {
  std::array<int, kRank> order{};
  for (int i = 0; i < x.rank(); ++i) order[static_cast<size_t>(i)] = i;
  std::swap(order[static_cast<size_t>(dimension_of("transpose", x.shape(), dim0))],
            order[static_cast<size_t>(dimension_of("transpose", x.shape(), dim1))]);
  return permute(x, {order.data(), static_cast<size_t>(x.rank())});
}

Var slice(const Var& x, int dim, int64_t start, int64_t end) {
  constexpr const char* kName = "slice";
  const int at = dimension_of(kName, x.shape(), dim);
  const int64_t size = x.size(at);
  const int64_t first = start < 0 ? start + size : start;
  const int64_t last = end < 0 ? end + size : end;
  check(first >= 0 && first <= last && last <= size, kName, "positions ", start, " … ", end, " of dimension ", dim,
        " of the shape ", x.shape(), ": they must be in order and within 0 … ", size);
  Dims shape = x.shape();
  shape[at] = last - first;
  const Var y = x.tape().output(shape, {x});
  copy(wide(x.values().data(), x.shape()).slice(wide_dimension(shape, at), first, last - first),
       wide(y.output_values().data(), shape));
  return x.tape().record<slice_backward>(y, SliceSaved{x, at, first});
}

Var concat(std::span<const Var> parts, int dim) {
  constexpr const char* kName = "concat";
  check(!parts.empty(), kName, "there is nothing to concatenate");
  Tape& tape = parts[0].tape();
  Dims shape = parts[0].shape();
  const int at = dimension_of(kName, shape, dim);
  shape[at] = 0;
  Var wants = parts[0];  // a gradient, if one of them does
  for (const Var& part : parts) {
    check(&part.tape() == &tape, kName, "the Vars are of different tapes");
    Dims expected = shape;
    if (part.rank() == shape.rank()) expected[at] = part.size(at);
    check(part.shape() == expected, kName, "shapes ", parts[0].shape(), " and ", part.shape(),
          " must be equal but for dimension ", dim);
    shape[at] += part.size(at);
    if (part.needs_gradient()) wants = part;
  }
  const Var y = tape.output(shape, {wants});
  const View<float, kRank> to = wide(y.output_values().data(), shape);
  int64_t start = 0;
  for (const Var& part : parts) {
    copy(wide(part.values().data(), part.shape()), to.slice(wide_dimension(shape, at), start, part.size(at)));
    start += part.size(at);
  }
  if (!y.needs_gradient()) return y;
  Var* const kept = tape.keep<Var>(static_cast<int64_t>(parts.size()));
  std::uninitialized_copy(parts.begin(), parts.end(), kept);
  return tape.record<concat_backward>(y, ConcatSaved{kept, parts.size(), at});
}

Var concat(std::initializer_list<Var> parts, int dim) {
  return concat(std::span<const Var>(parts.begin(), parts.size()), dim);
}

}  // namespace heed
