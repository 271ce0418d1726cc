// The epilogue of a product for the tiles that cannot be finished in registers: those with an activation, at the right
// edge, or with strided rows. The tile is in L1.
#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/activation_vector.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// Elements of a row, `step` apart, as a vector.
template <class Part>
HWY_INLINE Vector load_apart(Part part, const float* from, int64_t step, int64_t count) {
  if (step == 1) return part.load(from);
  HWY_ALIGN float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i * step];
  return hn::Load(kFloats, lanes);
}

template <class Part>
HWY_INLINE void store_apart(Part part, Vector value, float* to, int64_t step, int64_t count) {
  if (step == 1) return part.store(value, to);
  HWY_ALIGN float lanes[kLanes];
  hn::Store(value, kFloats, lanes);
  for (int64_t i = 0; i < count; ++i) to[i * step] = lanes[i];
}

// The vectors of a tile's row at `column` of c.
template <class Part>
struct TilePlace {
  Part part;
  int64_t row, column, count;

  HWY_INLINE Vector load(const View<const float, 2>& view) const {
    return load_apart(part, &view(row, column), view.stride(1), count);
  }
  HWY_INLINE void store(Vector value, const View<float, 2>& view) const {
    store_apart(part, value, &view(row, column), view.stride(1), count);
  }
};

// c = ((act(scale · sums + bias)) ∘ factor + residual) + c, and the activation's derivative where it is asked for.
template <class A, bool kDerivative>
void finish_tile_with(const MatmulCall& call, const UnfinishedTile& tile) {
  const Vector scale = hn::Set(kFloats, call.scale);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* const sums = tile.sums + r * tile.row_step;
    for_each_vector(tile.columns, [&](auto part, int64_t j) HWY_ATTR {
      const int64_t count = std::min<int64_t>(kLanes, tile.columns - j);
      const TilePlace<decltype(part)> at{part, tile.row + r, tile.column + j, count};
      Vector x = hn::LoadU(kFloats, sums + j);
      if (call.bias.data() != nullptr) {
        x = hn::MulAdd(scale, x, load_apart(part, &call.bias(at.column), call.bias.stride(0), count));
      } else if (call.scale != 1.0F) {
        x = hn::Mul(scale, x);
      }
      if constexpr (kDerivative) at.store(A::gradient(x, hn::Set(kFloats, 1.0F)), call.derivative);
      x = A::value(x);
      if (call.factor.data() != nullptr) x = multiply_by_factor(x, at.load(call.factor));
      if (call.residual.data() != nullptr) x = hn::Add(x, at.load(call.residual));
      if (call.accumulate) x = hn::Add(x, at.load(call.c));
      at.store(x, call.c);
    });
  }
}

void finish_tile(const MatmulCall& call, const UnfinishedTile& tile) {
  with_activation(call.activation, [&]<class A>() HWY_ATTR {
    if (call.derivative.data() != nullptr) {
      finish_tile_with<A, true>(call, tile);
    } else {
      finish_tile_with<A, false>(call, tile);
    }
  });
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void finish_tile_kernel<kTargetIsa>(const MatmulCall& call, const UnfinishedTile& tile) {
  HWY_NAMESPACE::finish_tile(call, tile);
}

}  // namespace heed
