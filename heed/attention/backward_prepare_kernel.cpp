// What backward needs of each query before it begins: d_out · out, and the row states in the form that it uses.
#include <algorithm>
#include <cmath>

#include "heed/attention/backward_kernel.h"
#include "heed/simd/register_tile.h"
#include "heed/simd/target.h"
#include "heed/simd/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// The exponent of the power of two that moves from a row's sum to its shift. Sums between 1 and 2^24 stay as forward
// left them; one of 2^±60 would let d_out / sum overflow or vanish before p makes up for it.
float sum_exponent(float sum) {
  if (!(sum > 0.0F && sum < 1.0F) && !(sum > 0x1p24F)) return 0.0F;
  return static_cast<float>(std::ilogb(sum));
}

// Σ_d a · b of four rows, in the lanes of a fixed tree: each row's bits depend only on itself.
HWY_INLINE void dot_rows(const float* const (&a)[4], const float* const (&b)[4], int64_t d, float (&result)[4]) {
  Vector sums[4];
  for (int r = 0; r < 4; ++r) {
    sums[r] = hn::Zero(kFloats);
    int64_t i = 0;
    for (; i + kLanes <= d; i += kLanes) {
      sums[r] = hn::MulAdd(hn::LoadU(kFloats, a[r] + i), hn::LoadU(kFloats, b[r] + i), sums[r]);
    }
    if (i == d) continue;
    HWY_ALIGN float tail_a[kLanes] = {};
    HWY_ALIGN float tail_b[kLanes] = {};
    std::copy(a[r] + i, a[r] + d, tail_a);
    std::copy(b[r] + i, b[r] + d, tail_b);
    sums[r] = hn::MulAdd(hn::Load(kFloats, tail_a), hn::Load(kFloats, tail_b), sums[r]);
  }
  transpose_blocks(sums[0], sums[1], sums[2], sums[3]);
  const Vector total = hn::Add(hn::Add(sums[0], sums[1]), hn::Add(sums[2], sums[3]));
  HWY_ALIGN float lanes[kLanes];
  hn::Store(total, kFloats, lanes);
  for (int r = 0; r < 4; ++r) {
    result[r] = lanes[r];
    for (int block = 4; block < kLanes; block += 4) result[r] += lanes[block + r];
  }
}

// The weight of the head's sink in a row.
double sink_weight(const BackwardJob& job, int64_t b, int64_t head, int64_t q) {
  const auto& [shift, sum] = job.outputs.rows;
  if (sum(b, head, q) == 0.0F) return 0.0;
  const double above = static_cast<double>(job.scores.sink(head)) - static_cast<double>(shift(b, head, q));
  const double power = static_cast<double>(kScoreBits) * above;
  return std::exp2(power) / static_cast<double>(sum(b, head, q));
}

// What is kept of query q, given Σ_d d_out · out.
void prepare_row(const BackwardJob& job, int64_t b, int64_t head, int64_t q, float dot) {
  const auto& rows = job.outputs.rows;
  const bool given = rows.sum.data() != nullptr;  // else by sigmoid
  const float sum = given ? rows.sum(b, head, q) : 1.0F;
  const float exponent = sum_exponent(sum);
  const float inverse = sum == 0.0F ? 0.0F : (exponent == 0.0F ? 1.0F : std::exp2(exponent)) / sum;
  job.shift(b, head, q) = (given ? rows.shift(b, head, q) : 0.0F) + exponent / kScoreBits;
  job.inverse_sum(b, head, q) = job.scores.kept_scale * inverse;
  job.delta(b, head, q) = job.value_scale * inverse * dot;
}

double prepare(const BackwardJob& job, int64_t b, int64_t head, int64_t q_begin, int64_t q_end) {
  const auto& [out, rows, d_out] = job.outputs;
  const int64_t d_k = job.inputs.q.size(3);
  double d_sink = 0.0;
  for (int64_t q = q_begin; q < q_end; q += 4) {
    const float* a[4];
    const float* c[4];
    for (int64_t r = 0; r < 4; ++r) {
      const int64_t at = std::min(q + r, q_end - 1);
      a[r] = &d_out(b, at, head, 0);
      c[r] = &out(b, at, head, 0);
    }
    float dots[4];
    dot_rows(a, c, out.size(3), dots);
    for (int64_t r = 0; r < std::min<int64_t>(4, q_end - q); ++r) {
      prepare_row(job, b, head, q + r, dots[r]);
      if (job.zeroes_d_q) std::fill_n(&job.gradients.d_q.view(b, q + r, head, 0), d_k, 0.0F);
      if (job.scores.sinks.data() != nullptr) d_sink -= sink_weight(job, b, head, q + r) * static_cast<double>(dots[r]);
    }
  }
  return d_sink;
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
double backward_prepare<kTargetIsa>(const BackwardJob& job, int64_t b, int64_t head, int64_t q_begin, int64_t q_end) {
  return HWY_NAMESPACE::prepare(job, b, head, q_begin, q_end);
}

}  // namespace heed
