// With an arena of the caller's, calls after the first allocate nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

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

// A problem with a bit of everything: groups, padding, documents, a dense mask.
class AttentionAllocation : public ::testing::Test {
 protected:
  AttentionAllocation() {
    case_.options.arena = &arena_;
    case_.options.mask = Mask::causal() & Mask::lengths({600, 370}) & Mask::documents({0, 250}) &
                         Mask::block(View<const bool, 2>(hidden_.get(), {600, 600}));
  }

  AttentionCase case_{
      {.batch = 2, .t_q = 600, .t_k = 600, .heads = 4, .kv_heads = 2, .d_k = 24, .d_v = 40}, Layout::fused_qkv, 1};
  Arena arena_;
  std::unique_ptr<bool[]> hidden_ = std::make_unique<bool[]>(600 * 600);
};

TEST_F(AttentionAllocation, TheCounterSeesATensor) {
  const int64_t before = allocation_count();
  const Tensor tensor({8});
  EXPECT_GT(allocation_count(), before);
}

TEST_F(AttentionAllocation, ForwardWithAnArenaAllocatesOnlyOnce) {
  expect_second_call_allocates_nothing([&] { case_.forward(); });
}

TEST_F(AttentionAllocation, BackwardWithAnArenaAllocatesOnlyOnce) {
  case_.forward();
  expect_second_call_allocates_nothing([&] { case_.backward(); });
}

TEST_F(AttentionAllocation, ScoreOptionsWithAnArenaAllocateOnlyOnce) {
  ScoreTensors tensors(case_, 1);
  tensors.use_bias(1, 1);
  tensors.use_alibi();
  tensors.use_table(32, 128, true);
  tensors.use_sinks();
  case_.options.scores.soft_cap = 5.0F;
  case_.options.scores.dropout.probability = 0.1F;
  expect_second_call_allocates_nothing([&] {
    case_.forward();
    case_.backward();
  });
}

TEST(DecodeAllocation, DecodeWithAnArenaAllocatesOnlyOnce) {
  for (const int64_t t_q : {1, 50}) {
    AttentionCase c({.batch = 2, .t_q = t_q, .t_k = 700, .heads = 4, .kv_heads = 1, .d_k = 24, .d_v = 40}, Layout::bthd,
                    2);
    KvCache cache(cache_options(c.sizes, 2000));
    const std::vector<int64_t> sequences = add_sequences(cache, 2);
    for (int64_t b = 0; b < 2; ++b) {
      cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, b == 0 ? 700 : 300));
    }
    Arena arena;
    DecodeOptions options;
    options.arena = &arena;
    expect_second_call_allocates_nothing([&] { attention_decode(cache, sequences, c.q, options, c.out, c.rows); });
    ScoreTensors tensors(c, 3);
    tensors.use_alibi();
    tensors.use_table(16, 60, false);
    tensors.use_bias(1, 1, 3);
    tensors.use_sinks();
    options.scores = c.options.scores;
    options.scores.dropout = {0.1F, 1, 2, 3, {5, 6}};
    expect_second_call_allocates_nothing([&] { attention_decode(cache, sequences, c.q, options, c.out, c.rows); });
  }
}

}  // namespace
}  // namespace heed::test
