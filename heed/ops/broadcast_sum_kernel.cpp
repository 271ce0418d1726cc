#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/broadcast_sum_kernel.h"
#include "heed/ops/staged_row.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

static_assert(kSumColumns <= kStagedElements);

// A row of the slab, contiguous: in place or copied to the buffer.
HWY_INLINE const float* contiguous(const float* from, int64_t step, int64_t count, float* buffer) {
  if (step == 1) return from;
  for (int64_t n = 0; n < count; ++n) buffer[n] = from[n * step];
  return buffer;
}

// Adds kVectors vectors of columns, from `column` on, over the rows of the slab.
template <int kVectors, class Part>
HWY_INLINE void sum_strip(const SumSlab& slab, int64_t column, Part part, int64_t columns) {
  HWY_ALIGN float x_buffer[kVectors * kLanes];
  HWY_ALIGN float factor_buffer[kVectors * kLanes];
  const float* const x = slab.x + column * slab.x_step;
  const float* const factor = slab.factor == nullptr ? nullptr : slab.factor + column * slab.factor_step;
  StridedIndex<2> index(*slab.sequence, slab.sequence->rank, slab.begin);
  for (int64_t begin = slab.begin; begin < slab.end; begin += kRowsOfBlock) {
    const int64_t end = std::min(begin + kRowsOfBlock, slab.end);
    Vector sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(kFloats);
    for (int64_t i = begin; i < end; ++i, index.next()) {
      const float* const row = contiguous(x + index.offsets()[0], slab.x_step, columns, x_buffer);
      if (factor == nullptr) {
        for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], part.load(row + v * kLanes));
        continue;
      }
      const float* const factors = contiguous(factor + index.offsets()[1], slab.factor_step, columns, factor_buffer);
      for (int v = 0; v < kVectors; ++v) {
        sum[v] = hn::MulAdd(part.load(row + v * kLanes), part.load(factors + v * kLanes), sum[v]);
      }
    }
    for (int v = 0; v < kVectors; ++v) hn::Store(sum[v], kFloats, x_buffer + v * kLanes);
    for (int64_t n = 0; n < columns; ++n) slab.sums[column + n] += static_cast<double>(x_buffer[n]);
  }
}

void sum_columns(const SumSlab& slab) {
  constexpr int kWide = 4;
  std::fill_n(slab.sums, slab.columns, 0.0);
  int64_t column = 0;
  for (; column + kWide * kLanes <= slab.columns; column += kWide * kLanes) {
    sum_strip<kWide>(slab, column, WholeVector{}, kWide * kLanes);
  }
  for (; column + kLanes <= slab.columns; column += kLanes) sum_strip<1>(slab, column, WholeVector{}, kLanes);
  const int64_t left = slab.columns - column;
  if (left > 0) sum_strip<1>(slab, column, PartOfVector{left}, left);
}

// Consecutive elements of a sequence in contiguous memory: in place where a row of it holds them, else copied.
class SequenceReader {
 public:
  SequenceReader(const float* from, const StridedLoop<2>& sequence, int operand)
      : from_(from), operand_(operand), sequence_(sequence) {}

  const float* elements(int64_t begin, int64_t count) {
    const int64_t length = sequence_.row_length();
    const int64_t step = sequence_.row_stride(operand_);
    int64_t at = begin % length;
    StridedIndex<2> row(sequence_, std::max(sequence_.rank - 1, 0), begin / length);
    const auto start = [&] { return from_ + row.offsets()[static_cast<size_t>(operand_)] + at * step; };
    if (step == 1 && at + count <= length) return start();
    for (int64_t done = 0; done < count; row.next()) {
      const int64_t n = std::min(length - at, count - done);
      const float* const source = start();
      for (int64_t i = 0; i < n; ++i) buffer_[done + i] = source[i * step];
      done += n;
      at = 0;
    }
    return buffer_;
  }

 private:
  const float* from_;
  int operand_;
  const StridedLoop<2>& sequence_;
  HWY_ALIGN float buffer_[kElementsOfBlock];
};

// Four chains in each lane, then the lanes in order.
HWY_INLINE double sum_block(const float* x, const float* factor, int64_t count) {
  constexpr int kChains = 4;
  Vector sum[kChains];
  for (Vector& chain : sum) chain = hn::Zero(kFloats);
  const auto add = [&](auto part, int64_t i, Vector& chain) HWY_ATTR {
    const Vector value = part.load(x + i);
    chain = factor == nullptr ? hn::Add(chain, value) : hn::MulAdd(value, part.load(factor + i), chain);
  };
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes) {
    for (int n = 0; n < kChains; ++n) add(WholeVector{}, i + n * kLanes, sum[n]);
  }
  for (int n = 0; i < count; ++n, i += kLanes) {
    if (count - i >= kLanes) {
      add(WholeVector{}, i, sum[n]);
    } else {
      add(PartOfVector{count - i}, i, sum[n]);
    }
  }
  HWY_ALIGN float lanes[kLanes];
  hn::Store(hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3])), kFloats, lanes);
  double total = 0.0;
  for (const float lane : lanes) total += static_cast<double>(lane);
  return total;
}

void sum_sequence(const SumSlab& slab) {
  SequenceReader x(slab.x, *slab.sequence, 0);
  SequenceReader factor(slab.factor, *slab.sequence, 1);
  double total = 0.0;
  for (int64_t begin = slab.begin; begin < slab.end; begin += kElementsOfBlock) {
    const int64_t count = std::min(kElementsOfBlock, slab.end - begin);
    const float* const factors = slab.factor == nullptr ? nullptr : factor.elements(begin, count);
    total += sum_block(x.elements(begin, count), factors, count);
  }
  *slab.sums = total;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void sum_columns_kernel<kTargetIsa>(const SumSlab& slab) {
  HWY_NAMESPACE::sum_columns(slab);
}

template <>
void sum_sequence_kernel<kTargetIsa>(const SumSlab& slab) {
  HWY_NAMESPACE::sum_sequence(slab);
}

}  // namespace heed
