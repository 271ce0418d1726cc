// One Var may be several inputs of attention: it receives the sum of their gradients, and what was detached none.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "heed/autograd/attention_ops.h"
#include "heed/autograd/tape.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

constexpr int64_t kHeads = 2, kHeadWidth = 5, kWidth = kHeads * kHeadWidth;

// q, k and v → y, on Vars of one shape.
using Op = Var (*)(const Var& q, const Var& k, const Var& v);

Var heads(const Var& q, const Var& k, const Var& v) { return attention(q, k, v); }

Var layer(const Var& q, const Var& k, const Var& v) {
  Tape& tape = q.tape();
  MultiHeadOpOptions options;
  options.heads = kHeads;
  options.residual = q;
  return multihead(q, k, v,
                   {.in_weight = tape.leaf(random_tensor({3 * kWidth, kWidth}, 7)),
                    .out_weight = tape.leaf(random_tensor({kWidth, kWidth}, 8))},
                   options);
}

struct OpCase {
  Op op;
  std::vector<int64_t> shape;
};

const std::array<OpCase, 2> kOps{OpCase{heads, {2, 6, kHeads, kHeadWidth}}, OpCase{layer, {2, 6, kWidth}}};

// The gradients of leaves, all with the values of x; `wire` connects them to the op.
template <size_t N, class Wire>
std::array<std::vector<float>, N> gradients(const OpCase& c, Wire wire) {
  const Tensor x = random_tensor(c.shape, 1), d_y = random_tensor(c.shape, 2);
  Tape tape;
  std::array<Var, N> leaves;
  for (Var& leaf : leaves) leaf = tape.leaf(x);
  wire(leaves).backward(d_y.values());
  std::array<std::vector<float>, N> result;
  for (size_t n = 0; n < N; ++n) result[n] = {leaves[n].gradients().begin(), leaves[n].gradients().end()};
  return result;
}

void expect_sum(const std::vector<float>& got, const std::vector<std::vector<float>>& parts) {
  for (size_t i = 0; i < got.size(); ++i) {
    float sum = 0.0F;
    for (const std::vector<float>& part : parts) sum += part[i];
    ASSERT_NEAR(got[i], sum, 2e-4F * std::max(1.0F, std::abs(sum))) << "element " << i;
  }
}

TEST(AttentionInputs, OneVarReceivesTheSumOfItsGradients) {
  for (const OpCase& c : kOps) {
    const auto apart = gradients<3>(c, [&](const auto& in) { return c.op(in[0], in[1], in[2]); });
    const auto all = gradients<1>(c, [&](const auto& in) { return c.op(in[0], in[0], in[0]); });
    expect_sum(all[0], {apart[0], apart[1], apart[2]});
    const auto key_value = gradients<2>(c, [&](const auto& in) { return c.op(in[0], in[1], in[1]); });
    expect_sum(key_value[0], {apart[0]});
    expect_sum(key_value[1], {apart[1], apart[2]});
    const auto query_value = gradients<2>(c, [&](const auto& in) { return c.op(in[0], in[1], in[0]); });
    expect_sum(query_value[0], {apart[0], apart[2]});
    expect_sum(query_value[1], {apart[1]});
  }
}

TEST(AttentionInputs, NothingFlowsThroughADetachedInput) {
  for (const OpCase& c : kOps) {
    const auto apart = gradients<3>(c, [&](const auto& in) { return c.op(in[0], in[1], in[2]); });
    const auto detached = gradients<1>(c, [&](const auto& in) { return c.op(in[0], in[0].detach(), in[0].detach()); });
    expect_sum(detached[0], {apart[0]});
    const auto query = gradients<1>(c, [&](const auto& in) { return c.op(in[0].detach(), in[0], in[0]); });
    expect_sum(query[0], {apart[1], apart[2]});
  }
}

// Memory of an earlier step has other numbers in it.
TEST(AttentionInputs, WithoutQueriesTheGradientsOfKeysAndValuesAre0) {
  Tape tape;
  for (const OpCase& c : kOps) {
    for (const int64_t queries : {6, 0}) {
      std::vector<int64_t> shape = c.shape;
      shape[1] = queries;
      const Var q = tape.leaf(random_tensor(shape, 1));
      const Var k = tape.leaf(random_tensor(c.shape, 2)), v = tape.leaf(random_tensor(c.shape, 3));
      c.op(q, k, v).backward(random_tensor(shape, 4).values());
      for (const Var& each : {k, v}) {
        const bool is_0 = std::ranges::all_of(each.gradients(), [](float value) { return value == 0.0F; });
        EXPECT_EQ(is_0, queries == 0);
      }
      tape.clear();
    }
  }
}

}  // namespace
}  // namespace heed::test
