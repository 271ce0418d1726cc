// The epilogue of a product for the tiles that cannot be finished in registers: those with an activation, at the right
// edge, or with strided rows. The tile is in L1.
#include "heed/simd/target.h"
//
#include "heed/ops/activation_vector.h"
#include "heed/ops/matmul_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// x = f(x) for the whole tile, to full vectors.
template <class F>
HWY_INLINE void transform(const UnfinishedTile& tile, F f) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    float* row = tile.sums + r * tile.row_step;
    for (int64_t j = 0; j < tile.columns; j += kLanes) hn::StoreU(f(hn::LoadU(kFloats, row + j)), kFloats, row + j);
  }
}

// x = scale · x + bias
void apply_linear(const MatmulCall& call, const UnfinishedTile& tile) {
  const Vector scale = hn::Set(kFloats, call.scale);
  if (!call.bias.data()) {
    if (call.scale != 1.0F) transform(tile, [=](Vector x) HWY_ATTR { return hn::Mul(scale, x); });
    return;
  }
  for (int64_t j = 0; j < tile.columns; j += kLanes) {
    float values[kLanes] = {};
    for (int64_t i = 0; i < kLanes && j + i < tile.columns; ++i) values[i] = call.bias(tile.column + j + i);
    const Vector bias = hn::LoadU(kFloats, values);
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* at = tile.sums + r * tile.row_step + j;
      hn::StoreU(hn::MulAdd(scale, hn::LoadU(kFloats, at), bias), kFloats, at);
    }
  }
}

void apply_activation(Activation activation, const UnfinishedTile& tile) {
  if (activation == Activation::none) return;
  with_activation(activation,
                  [&]<class A>() HWY_ATTR { transform(tile, [](Vector x) HWY_ATTR { return A::value(x); }); });
}

// c = (x + residual) + c
void store_tile(const MatmulCall& call, const UnfinishedTile& tile) {
  for (int64_t r = 0; r < tile.rows; ++r) {
    const float* sums = tile.sums + r * tile.row_step;
    for (int64_t j = 0; j < tile.columns; ++j) {
      float value = sums[j];
      if (call.residual.data()) value += call.residual(tile.row + r, tile.column + j);
      float& to = call.c(tile.row + r, tile.column + j);
      to = call.accumulate ? value + to : value;
    }
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void finish_tile_kernel<kTargetIsa>(const MatmulCall& call, const UnfinishedTile& tile) {
  HWY_NAMESPACE::apply_linear(call, tile);
  HWY_NAMESPACE::apply_activation(call.activation, tile);
  HWY_NAMESPACE::store_tile(call, tile);
}

}  // namespace heed
