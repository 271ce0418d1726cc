// With a workspace of the caller's, calls after the first allocate nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

Tensor normal_tensor(std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor(std::move(shape));
  Rng(seed).fill_normal(tensor.values());
  return tensor;
}

// call() allocates nothing when it is made for the second time, with 1 and 2 threads, on every instruction set.
template <class Call>
void expect_second_call_allocates_nothing(Call call) {
  const int before = threads();
  on_every_isa([&] {
    for (const int count : {1, 2}) {
      SCOPED_TRACE(::testing::Message() << count << " threads");
      set_threads(count);
      call();
      const int64_t allocations = allocation_count();
      call();
      EXPECT_EQ(allocation_count(), allocations);
    }
  });
  set_threads(before);
}

struct Problem {
  Tensor q = normal_tensor({2, 130, 4, 24}, 1);
  Tensor k = normal_tensor({2, 130, 2, 24}, 2);
  Tensor v = normal_tensor({2, 130, 2, 40}, 3);
  Tensor out{{2, 130, 4, 40}};
  Tensor reference{{2, 4, 130}};
  Tensor sum{{2, 4, 130}};
  Workspace workspace;
  AttentionOptions options{Mask::causal() & Mask::lengths({130, 77}), std::nullopt, &workspace};

  AttentionInputs inputs() const { return {q.view<4>(), k.view<4>(), v.view<4>()}; }
  RowStates<float> rows() { return {reference.view<3>(), sum.view<3>()}; }
};

TEST(AttentionAllocation, TheCounterSeesTensors) {
  const int64_t before = allocation_count();
  const Tensor tensor({8});
  EXPECT_GT(allocation_count(), before);
}

TEST(AttentionAllocation, ForwardWithAWorkspaceAllocatesOnlyOnce) {
  Problem problem;
  expect_second_call_allocates_nothing(
      [&] { attention_forward(problem.inputs(), problem.options, problem.out.view<4>(), problem.rows()); });
}

}  // namespace
}  // namespace heed::test
