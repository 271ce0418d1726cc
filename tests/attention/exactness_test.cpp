// Exactness at size: the contract's bounds for unit-variance inputs, against the double reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "heed/attention/reference.h"
#include "tests/support/attention_case.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr double kForwardTolerance = 2e-6;
constexpr double kGradientTolerance = 1e-5;

std::vector<double> doubles_of(View<const float, 4> view) {
  const std::vector<float> values = values_of(view);
  return {values.begin(), values.end()};
}

// Heads and log-sum-exps in double.
struct Expected {
  std::vector<double> out;
  std::vector<double> log_sum_exp;
};

Expected forward_in_double(const AttentionCase& c) {
  const std::vector<double> q = doubles_of(c.q);
  const std::vector<double> k = doubles_of(c.k);
  const std::vector<double> v = doubles_of(c.v);
  Expected expected{std::vector<double>(static_cast<size_t>(c.out.count())),
                    std::vector<double>(static_cast<size_t>(c.rows.sum.count()))};
  reference::forward<double>({{q.data(), c.q.shape()},
                              {k.data(), c.k.shape()},
                              {v.data(), c.v.shape()},
                              c.options.mask,
                              1.0 / std::sqrt(static_cast<double>(c.sizes.d_k))},
                             {expected.out.data(), c.out.shape()}, {expected.log_sum_exp.data(), c.rows.sum.shape()});
  return expected;
}

void expect_forward_close(AttentionCase& c, const Expected& expected) {
  c.forward();
  expect_heads_close(c.out, View<const double, 4>(expected.out.data(), c.out.shape()), kForwardTolerance);
  Tensor got({c.sizes.batch, c.sizes.heads, c.sizes.t_q});
  log_sum_exp(c.rows, got.view<3>());
  Closeness sums;
  for (size_t i = 0; i < expected.log_sum_exp.size(); ++i) sums.add(got.values()[i], expected.log_sum_exp[i]);
  EXPECT_LE(sums.relative(), kForwardTolerance) << "log-sum-exp: error " << sums.error();
}

// A row's bits do not depend on the other queries, so a few queries stand for all rows of a long problem.
TEST(AttentionExactness, ForwardIsWithin2em6AtAnyLengthUpTo32768) {
  const AttentionSizes all[] = {
      {.t_q = 50, .t_k = 128, .heads = 2, .kv_heads = 2, .d_k = 64, .d_v = 64},
      {.t_q = 50, .t_k = 1000, .heads = 2, .kv_heads = 1, .d_k = 64, .d_v = 64},
      {.t_q = 20, .t_k = 2048, .heads = 2, .kv_heads = 2, .d_k = 128, .d_v = 128},
      {.t_q = 64, .t_k = 200, .heads = 4, .kv_heads = 4, .d_k = 256, .d_v = 256},
      {.t_q = 64, .t_k = 200, .heads = 4, .kv_heads = 4, .d_k = 1024, .d_v = 64},
      {.t_q = 20, .t_k = 4097, .heads = 2, .kv_heads = 2, .d_k = 80, .d_v = 33},
      {.t_q = 9, .t_k = 32768, .heads = 1, .kv_heads = 1, .d_k = 64, .d_v = 64},
  };
  for (const AttentionSizes& sizes : all) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(sizes.to_text() + (causal ? " causal" : " dense"));
      AttentionCase c(sizes, Layout::bthd, 1);
      if (causal) c.options.mask = Mask::causal(QueryPositions::bottom_right());
      const Expected expected = forward_in_double(c);
      on_every_isa([&] { expect_forward_close(c, expected); });
    }
  }
}

TEST(AttentionExactness, GradientsAreWithin1em5) {
  const AttentionSizes all[] = {
      {.t_q = 550, .t_k = 550, .heads = 1, .kv_heads = 1, .d_k = 64, .d_v = 64},
      {.t_q = 200, .t_k = 200, .heads = 2, .kv_heads = 1, .d_k = 128, .d_v = 128},
      {.t_q = 333, .t_k = 333, .heads = 1, .kv_heads = 1, .d_k = 32, .d_v = 48},
  };
  for (const AttentionSizes& sizes : all) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(sizes.to_text() + (causal ? " causal" : " dense"));
      AttentionCase c(sizes, Layout::bthd, 1);
      if (causal) c.options.mask = Mask::causal();
      const ReferenceResult expected = reference_result(c);
      const auto expect_close = [](const char* name, View<const float, 4> got, const std::vector<double>& values) {
        SCOPED_TRACE(name);
        expect_heads_close(got, View<const double, 4>(values.data(), got.shape()), kGradientTolerance);
      };
      on_every_isa([&] {
        c.forward();
        c.backward();
        expect_close("d_q", c.d_q, expected.d_q);
        expect_close("d_k", c.d_k, expected.d_k);
        expect_close("d_v", c.d_v, expected.d_v);
      });
    }
  }
}

}  // namespace
}  // namespace heed::test
