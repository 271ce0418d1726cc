#include "heed/ops/broadcast_sum.h"

#include <algorithm>

#include "heed/ops/broadcast_sum_kernel.h"
#include "heed/ops/strided_loop.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

// Blocks of a slab, and slabs whose sums are held at once.
constexpr int64_t kBlocksOfSlab = 64;
constexpr int64_t kSlabsAtOnce = 32;

// The call as loops: over the elements of y (operands y, x, factor), with the columns apart, and over the sequence of
// each (operands x, factor).
struct SumPlan {
  StridedLoop<3> outputs;
  StridedLoop<2> sequence;
  int64_t columns = 1;  // sums side by side in memory: the innermost dimension, where it is not summed
  Offsets<3> column_steps{1, 1, 1};
  bool by_columns = false;
  int64_t strips = 1;  // of kSumColumns
  int64_t slab = 0;    // elements of the sequence

  int64_t groups() const { return outputs.count() * strips; }
  int64_t slabs() const { return divide_up(sequence.count(), slab); }
};

SumPlan plan_of(const BroadcastSum& sum, const View<float, 4>& y) {
  SumPlan plan;
  int inner = 3;
  while (inner >= 0 && sum.x.size(inner) == 1) --inner;
  plan.by_columns = inner >= 0 && y.size(inner) == sum.x.size(inner);
  for (int i = 0; i < 4; ++i) {
    const Offsets<3> steps{y.stride(i), sum.x.stride(i), sum.factor.stride(i)};
    if (y.size(i) != sum.x.size(i)) {
      plan.sequence.append(sum.x.size(i), {steps[1], steps[2]});
    } else if (plan.by_columns && i == inner) {
      plan.columns = sum.x.size(i);
      plan.column_steps = steps;
    } else {
      plan.outputs.append(sum.x.size(i), steps);
    }
  }
  plan.strips = divide_up(plan.columns, kSumColumns);
  plan.slab = kBlocksOfSlab * (plan.by_columns ? kRowsOfBlock : kElementsOfBlock);
  return plan;
}

// The sums of a group, a strip of columns of an element of the outer loop, and where they go.
struct SumGroup {
  SumGroup(const SumPlan& plan, const BroadcastSum& sum, const InputGradient<4>& y, int64_t group) : sum_(sum), y_(y) {
    const StridedIndex<3> index(plan.outputs, plan.outputs.rank, group / plan.strips);
    const int64_t column = group % plan.strips * kSumColumns;
    for (size_t n = 0; n < 3; ++n) offsets_[n] = index.offsets()[n] + column * plan.column_steps[n];
    y_step_ = plan.column_steps[0];
    slab_.x_step = plan.column_steps[1];
    slab_.factor_step = plan.column_steps[2];
    slab_.columns = std::min(kSumColumns, plan.columns - column);
    slab_.sequence = &plan.sequence;
  }

  int64_t columns() const { return slab_.columns; }

  template <Isa isa>
  void add_slab(const SumPlan& plan, int64_t s, double* sums) const {
    SumSlab slab = slab_;
    slab.x = sum_.x.data() + offsets_[1];
    slab.factor = sum_.factor.data() == nullptr ? nullptr : sum_.factor.data() + offsets_[2];
    slab.begin = s * plan.slab;
    slab.end = std::min(slab.begin + plan.slab, plan.sequence.count());
    slab.sums = sums;
    if (plan.by_columns) {
      sum_columns_kernel<isa>(slab);
    } else {
      sum_sequence_kernel<isa>(slab);
    }
  }

  void write(const double* totals) const {
    float* const to = y_.view.data() + offsets_[0];
    for (int64_t c = 0; c < columns(); ++c) {
      const auto result = static_cast<float>(totals[c] * sum_.scale);
      float& element = to[c * y_step_];
      element = y_.add ? element + result : result;
    }
  }

 private:
  const BroadcastSum& sum_;
  const InputGradient<4>& y_;
  Offsets<3> offsets_{};
  int64_t y_step_ = 1;
  SumSlab slab_{};
};

using Sums = std::array<double, kSumColumns>;

void add_to(Sums& totals, const Sums& sums, int64_t columns) {
  for (size_t c = 0; c < static_cast<size_t>(columns); ++c) totals[c] += sums[c];
}

// Few groups with long sequences: the slabs of each in parallel.
template <Isa isa>
void sum_by_slabs(const SumPlan& plan, const BroadcastSum& sum, const InputGradient<4>& y) {
  for (int64_t g = 0; g < plan.groups(); ++g) {
    const SumGroup group(plan, sum, y, g);
    Sums totals{};
    std::array<Sums, kSlabsAtOnce> sums;
    for (int64_t first = 0; first < plan.slabs(); first += kSlabsAtOnce) {
      const int64_t count = std::min(kSlabsAtOnce, plan.slabs() - first);
      parallel_for(count, [&](int64_t s, int) {
        group.template add_slab<isa>(plan, first + s, sums[static_cast<size_t>(s)].data());
      });
      for (int64_t s = 0; s < count; ++s) add_to(totals, sums[static_cast<size_t>(s)], group.columns());
    }
    group.write(totals.data());
  }
}

template <Isa isa>
void sum_by_groups(const SumPlan& plan, const BroadcastSum& sum, const InputGradient<4>& y) {
  const int64_t elements = plan.sequence.count() * std::min(plan.columns, kSumColumns);
  const int64_t step = std::max<int64_t>(1, kTaskElements / std::max<int64_t>(elements, 1));
  parallel_for(divide_up(plan.groups(), step), [&](int64_t task, int) {
    for (int64_t g = task * step; g < std::min((task + 1) * step, plan.groups()); ++g) {
      const SumGroup group(plan, sum, y, g);
      Sums totals{};
      Sums sums;
      for (int64_t s = 0; s < plan.slabs(); ++s) {
        group.template add_slab<isa>(plan, s, sums.data());
        add_to(totals, sums, group.columns());
      }
      group.write(totals.data());
    }
  });
}

}  // namespace

void broadcast_sum(const BroadcastSum& sum, const InputGradient<4>& y) {
  if (y.view.count() == 0) return;
  const SumPlan plan = plan_of(sum, y.view);
  dispatch([&]<Isa isa>() {
    if (plan.slabs() > 1 && plan.groups() < 4 * threads()) {
      sum_by_slabs<isa>(plan, sum, y);
    } else {
      sum_by_groups<isa>(plan, sum, y);
    }
  });
}

}  // namespace heed
