#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/embedding.h"
#include "heed/ops/embedding_kernel.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

void forward_row(int64_t count, const float* row, float scale, const float* position, float* y) {
  const Vector factor = hn::Set(kFloats, scale);
  for_each_vector(count, [&](auto lanes, int64_t i) HWY_ATTR {
    const Vector in = lanes.load(row + i);
    lanes.store(position == nullptr ? hn::Mul(in, factor) : hn::MulAdd(in, factor, lanes.load(position + i)), y + i);
  });
}

// Columns i … of the sum, kVectors vectors wide, held in registers.
template <int kVectors, class Lanes>
HWY_INLINE void sum_columns(const RowSum& sum, int64_t i, const Lanes& lanes) {
  Vector total[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) total[v] = hn::Zero(kFloats);
  for (int64_t begin = 0; begin < sum.count; begin += kEmbeddingBlock) {
    const int64_t end = std::min(begin + kEmbeddingBlock, sum.count);
    Vector block[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) block[v] = lanes.load(sum.rows[begin] + i + v * kLanes);
    for (int64_t n = begin + 1; n < end; ++n) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) block[v] = hn::Add(block[v], lanes.load(sum.rows[n] + i + v * kLanes));
    }
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) total[v] = hn::Add(total[v], block[v]);
  }
  const Vector scale = hn::Set(kFloats, sum.scale);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    float* const at = sum.to + i + v * kLanes;
    lanes.store(hn::MulAdd(total[v], scale, lanes.load(at)), at);
  }
}

void add_rows(const RowSum& sum) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= sum.width; i += 4 * kLanes) sum_columns<4>(sum, i, WholeVector{});
  for (; i + kLanes <= sum.width; i += kLanes) sum_columns<1>(sum, i, WholeVector{});
  if (i < sum.width) sum_columns<1>(sum, i, PartOfVector{sum.width - i});
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void embedding_forward_kernel<kTargetIsa>(int64_t count, const float* row, float scale, const float* position,
                                          float* y) {
  HWY_NAMESPACE::forward_row(count, row, scale, position, y);
}

template <>
void embedding_backward_kernel<kTargetIsa>(const RowSum& sum) {
  HWY_NAMESPACE::add_rows(sum);
}

}  // namespace heed
