#include "heed/ops/matmul.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr const char* kName = "matmul";

// Whether index pairs of two dimensions can reach the same element: i · s = j · t with 0 < |i| < m and 0 < |j| < n, or
// a stride of 0.
bool strides_overlap(int64_t m, int64_t s, int64_t n, int64_t t) {
  if ((m > 1 && s == 0) || (n > 1 && t == 0)) return true;
  if (m <= 1 || n <= 1) return false;
  const int64_t common = std::gcd(s, t);
  return std::abs(t / common) < m && std::abs(s / common) < n;
}

template <int N>
void check_output(const View<float, N>& c, const void* a, const void* b, int64_t depth) {
  if (c.count() == 0) return;
  for (int i = 0; i < N; ++i) {
    for (int j = i + 1; j < N; ++j) {
      check(!strides_overlap(c.size(i), c.stride(i), c.size(j), c.stride(j)), kName, "c of shape ", c.shape(),
            " has strides ", c.strides(), ", which write an element twice; give it memory of its own");
    }
  }
  if (depth == 0) return;  // the factors are empty: an arena gives them the address of what it gives next
  check(c.data() != a && c.data() != b, kName, "c of shape ", c.shape(),
        " begins where a factor does; a product is not computed in place, give c memory of its own");
}

// Of rank 2, or the items of a batch.
void check_shapes(const Shape<2>& a, const Shape<2>& b, const Shape<2>& c) {
  check(a[1] == b[0], kName, "a is ", a, " and b ", b, "; the columns of a must be the rows of b");
  check(c[0] == a[0] && c[1] == b[1], kName, "c is ", c, "; a ", a, " times b ", b, " is ", Shape<2>{a[0], b[1]});
}

template <int Rank>
void check_options(const MatmulOptionsOf<Rank>& options, const View<float, Rank>& view) {
  const Shape<Rank>& c = view.shape();
  if (options.bias.data()) {
    check(options.bias.size(0) == c[Rank - 1], kName, "bias is ", options.bias.shape(), "; c ", c,
          " needs one value a column");
    check_extent(kName, "bias", options.bias);
  }
  const auto check_shape = [&](const char* name, const View<const float, Rank>& each) {
    if (each.data() == nullptr) return;
    check(each.shape() == c, kName, name, " is ", each.shape(), "; it must have the shape of c, ", c);
    check_extent(kName, name, each);
  };
  check_shape("residual", options.residual);
  check_shape("derivative", options.derivative);
  check_shape("factor", options.factor);
  check(view.count() == 0 || options.derivative.data() != view.data(), kName,
        "derivative begins where c does; give it memory of its own");
  check(options.factor.data() == nullptr || options.activation == Activation::none, kName,
        "a factor and an activation do not go together");
}

// The parts of the epilogue that are of the size of c, of one item.
void place_epilogue(MatmulCall& call, const MatmulOptions& options) {
  call.residual = options.residual;
  call.derivative = options.derivative;
  call.factor = options.factor;
}

template <class T>
View<T, 2> item_of(const View<T, 3>& view, int64_t item) {
  return view.data() == nullptr ? View<T, 2>() : view[item];
}

template <int Rank>
MatmulCall make_call(const MatmulOptionsOf<Rank>& options, const PanelLayout& panels) {
  MatmulCall call;
  call.panels = panels;
  call.scale = options.scale;
  call.bias = options.bias;
  call.activation = options.activation;
  call.accumulate = options.accumulate;
  return call;
}

// Computes all blocks of `items` products that differ only in where their matrices begin: place(call, item) says where.
template <class Place>
void run(MatmulCall call, int64_t items, Arena* given, Place place) {
  place(call, 0);
  const MatmulSplit split = plan_matmul(call, items, threads());
  const int64_t blocks = split.row_blocks * split.panel_blocks;
  const int64_t workers = split.serial ? 1 : threads();
  CallArena arena(given);
  const WorkerArenas scratch(*arena, workers, split.scratch_bytes);
  dispatch([&]<Isa isa>() {
    const auto body = [&](int64_t task, int worker) {
      MatmulBlock block;
      block.row = task % blocks / split.panel_blocks * split.block_rows;
      block.rows = std::min(split.block_rows, call.a.size(0) - block.row);
      block.panel = task % split.panel_blocks * split.block_panels;
      block.panels = std::min(split.block_panels, call.panels.count() - block.panel);
      Arena mine = scratch.of(worker);
      if (items == 1) return matmul_kernel<isa>(call, block, mine);
      MatmulCall item = call;
      place(item, task / blocks);
      matmul_kernel<isa>(item, block, mine);
    };
    if (!split.serial) return parallel_for(items * blocks, body);
    for (int64_t task = 0; task < items * blocks; ++task) body(task, 0);
  });
}

// The view without its batch dimension, if that only continues the rows.
template <class T>
bool folds(const View<T, 3>& view) {
  return view.size(0) == 1 || view.stride(0) == view.size(1) * view.stride(1);
}

template <class T>
View<T, 2> folded(const View<T, 3>& view) {
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}, {view.stride(1), view.stride(2)}};
}

}  // namespace

void matmul(View<const float, 2> a, View<const float, 2> b, View<float, 2> c, const MatmulOptions& options) {
  check_view(kName, "a", a);
  check_view(kName, "b", b);
  check_view(kName, "c", c);
  check_shapes(a.shape(), b.shape(), c.shape());
  check_output(c, a.data(), b.data(), a.size(1));
  check_options(options, c);
  if (c.count() == 0) return;
  run(make_call(options, panel_layout(isa(), c.size(1))), 1, options.arena, [&](MatmulCall& call, int64_t) {
    call.a = a;
    call.b = b;
    call.c = c;
    place_epilogue(call, options);
  });
}

void matmul(View<const float, 2> a, const PackedMatrix& b, View<float, 2> c, const MatmulOptions& options) {
  check_view(kName, "a", a);
  check_view(kName, "c", c);
  check_shapes(a.shape(), {b.rows(), b.columns()}, c.shape());
  check_output(c, a.data(), b.data(), a.size(1));
  check_options(options, c);
  if (c.count() == 0) return;
  check(b.isa() == isa(), kName, "b was packed for ", isa_name(b.isa()), ", and ", isa_name(isa()),
        " is in use; pack it again after set_isa");
  run(make_call(options, b.panels()), 1, options.arena, [&](MatmulCall& call, int64_t) {
    call.a = a;
    call.packed = b.data();
    call.packed_bf16 = b.bf16_data();
    call.c = c;
    place_epilogue(call, options);
  });
}

void matmul(View<const float, 3> a, View<const float, 3> b, View<float, 3> c, const BatchedMatmulOptions& options) {
  check_view(kName, "a", a);
  check_view(kName, "b", b);
  check_view(kName, "c", c);
  check(a.size(0) == c.size(0) && b.size(0) == c.size(0), kName, "batches differ: a is ", a.shape(), ", b ", b.shape(),
        ", c ", c.shape(), "; repeat a matrix with a batch stride of 0");
  check_shapes({a.size(1), a.size(2)}, {b.size(1), b.size(2)}, {c.size(1), c.size(2)});
  check_output(c, a.data(), b.data(), a.size(2));
  check_options(options, c);
  if (c.count() == 0) return;
  // One b for all items: a taller product, b packed once.
  const auto may_fold = [](const auto& view) { return view.data() == nullptr || folds(view); };
  if ((b.size(0) == 1 || b.stride(0) == 0) && folds(a) && folds(c) && may_fold(options.residual) &&
      may_fold(options.derivative) && may_fold(options.factor)) {
    const auto fold = [](const auto& view) { return view.data() == nullptr ? decltype(folded(view))() : folded(view); };
    MatmulOptions all;
    all.scale = options.scale;
    all.bias = options.bias;
    all.activation = options.activation;
    all.derivative = fold(options.derivative);
    all.factor = fold(options.factor);
    all.residual = fold(options.residual);
    all.accumulate = options.accumulate;
    all.arena = options.arena;
    return matmul(folded(a), b[0], folded(c), all);
  }
  run(make_call(options, panel_layout(isa(), c.size(2))), c.size(0), options.arena,
      [&](MatmulCall& call, int64_t item) {
        call.a = a[item];
        call.b = b[item];
        call.c = c[item];
        call.residual = item_of(options.residual, item);
        call.derivative = item_of(options.derivative, item);
        call.factor = item_of(options.factor, item);
      });
}

}  // namespace heed
