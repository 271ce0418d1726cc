// Bad input: an Error that names the function, the sizes and the rule, and nothing written.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "heed/core/error.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Texts = std::vector<std::string>;

// A problem that is right, so that each test makes one thing of it wrong.
class BadInput : public ::testing::Test {
 protected:
  BadInput() : inputs(c.inputs()), outputs{c.out, c.rows, c.d_out}, gradients{c.d_q, c.d_k, c.d_v} {
    run(c);  // it is right
    c.clear_results();
    untouched_ = results();
  }

  AttentionResults results() const {
    return {values_of(c.out), values_of(c.rows.shift), values_of(c.rows.sum),
            values_of(c.d_q), values_of(c.d_k),        values_of(c.d_v)};
  }

  void expect_nothing_written() const {
    const AttentionResults now = results();
    EXPECT_TRUE(same_bits(now.out, untouched_.out) && same_bits(now.shift, untouched_.shift) &&
                same_bits(now.sum, untouched_.sum) && same_bits(now.d_q, untouched_.d_q) &&
                same_bits(now.d_k, untouched_.d_k) && same_bits(now.d_v, untouched_.d_v));
  }

  void expect_forward_refused(const Texts& texts) const {
    expect_error(
        "attention_forward", [&] { attention_forward(inputs, options, out, rows); }, texts);
    expect_nothing_written();
  }

  void expect_backward_refused(const Texts& texts) const {
    expect_error(
        "attention_backward", [&] { attention_backward(inputs, options, outputs, gradients); }, texts);
    expect_nothing_written();
  }

  void expect_refused(const Texts& texts) const {
    expect_forward_refused(texts);
    expect_backward_refused(texts);
    expect_error(
        "attention_plan", [&] { attention_plan(inputs, options); }, texts);
  }

  void expect_mask_refused(const Mask& mask, const Texts& texts) {
    options.mask = mask;
    expect_refused(texts);
  }

  AttentionCase c{{.batch = 2, .t_q = 6, .t_k = 9, .heads = 4, .kv_heads = 2, .d_k = 3, .d_v = 5}, Layout::bthd, 1};
  AttentionInputs inputs;
  AttentionOptions options;
  View<float, 4> out = c.out;
  RowStates<float> rows = c.rows;
  AttentionOutputs outputs;
  AttentionGradients gradients;

 private:
  AttentionResults untouched_;
};

constexpr const char* kQ = "q [2, 6, 4, 3]";
constexpr const char* kK = "k [2, 9, 2, 3]";
constexpr const char* kV = "v [2, 9, 2, 5]";

TEST_F(BadInput, BatchSizesThatDifferAreRefused) {
  inputs.k = inputs.k.slice(0, 0, 1);
  expect_refused({"batch sizes differ", kQ, "k [1, 9, 2, 3]", kV});
  inputs.k = c.k;
  inputs.v = inputs.v.slice(0, 0, 1);
  expect_refused({"batch sizes differ", kQ, kK, "v [1, 9, 2, 5]"});
}

TEST_F(BadInput, KeysAndValuesOfDifferentLengthsAreRefused) {
  inputs.v = inputs.v.slice(1, 0, 8);
  expect_refused({"same length Tk", kQ, kK, "v [2, 8, 2, 5]"});
}

TEST_F(BadInput, KeysAndValuesOfDifferentHeadsAreRefused) {
  inputs.v = inputs.v.slice(2, 0, 1);
  expect_refused({"same number of heads", kQ, kK, "v [2, 9, 1, 5]"});
}

TEST_F(BadInput, QueriesAndKeysOfDifferentWidthsAreRefused) {
  inputs.k = inputs.k.slice(3, 0, 2);
  expect_refused({"same width Dk", kQ, "k [2, 9, 2, 2]", kV});
}

TEST_F(BadInput, QueryHeadsThatAreNoMultipleOfKeyValueHeadsAreRefused) {
  inputs.q = inputs.q.slice(2, 0, 3);
  expect_refused({"the 3 query heads must be a multiple of the 2 key/value heads", "q [2, 6, 3, 3]", kK, kV});
}

TEST_F(BadInput, NoHeadsAreRefused) {
  inputs.q = inputs.q.slice(2, 0, 0);
  expect_refused({"q has no heads", "q [2, 6, 0, 3]", kK});
  inputs.q = c.q;
  inputs.k = inputs.k.slice(2, 0, 0);
  inputs.v = inputs.v.slice(2, 0, 0);
  expect_refused({"k and v have no heads", kQ, "k [2, 9, 0, 3]"});
}

TEST_F(BadInput, WidthsOf0AreRefused) {
  inputs.v = inputs.v.slice(3, 0, 0);
  expect_refused({"Dk and Dv must be at least 1", "v [2, 9, 2, 0]"});
  inputs.v = c.v;
  inputs.q = inputs.q.slice(3, 0, 0);
  inputs.k = inputs.k.slice(3, 0, 0);
  expect_refused({"Dk and Dv must be at least 1", "q [2, 6, 4, 0]"});
}

TEST_F(BadInput, ViewsThatWereNeverSetAreRefusedByName) {
  inputs = {};
  expect_refused({"q is a null view without a shape"});
  inputs.q = c.q;
  expect_refused({"k is a null view without a shape"});
  inputs.k = c.k;
  expect_refused({"v is a null view without a shape"});
  inputs.v = c.v;
  out = {};
  expect_forward_refused({"out is a null view without a shape"});
  gradients.d_q = {};
  expect_backward_refused({"d_q is a null view without a shape"});
}

TEST_F(BadInput, NullViewsAreRefused) {
  inputs.q = View<const float, 4>(nullptr, c.q.shape());
  expect_refused({"q is a null view of shape [2, 6, 4, 3]"});
  inputs.q = c.q;
  inputs.k = View<const float, 4>(nullptr, c.k.shape());
  expect_refused({"k is a null view of shape [2, 9, 2, 3]"});
  inputs.k = c.k;
  inputs.v = View<const float, 4>(nullptr, c.v.shape());
  expect_refused({"v is a null view of shape [2, 9, 2, 5]"});
}

TEST_F(BadInput, NegativeSizesAreRefused) {
  inputs.q = View<const float, 4>(c.q.data(), {2, -6, 4, 3});
  expect_refused({"q has a negative size: [2, -6, 4, 3]"});
}

TEST_F(BadInput, ALastDimensionThatIsNotContiguousIsRefused) {
  inputs.k = View<const float, 4>(c.k.data(), {2, 4, 2, 3}, {36, 6, 1, 2});
  inputs.v = inputs.v.slice(1, 0, 4);
  expect_refused({"k has strides [36, 6, 1, 2]", "contiguous"});
}

TEST_F(BadInput, LengthsThatDoNotFitAreRefused) {
  expect_mask_refused(Mask::lengths({9}), {"1 lengths", "batch of 2"});
  expect_mask_refused(Mask::lengths({9, 9, 9}), {"3 lengths", "batch of 2"});
  expect_mask_refused(Mask::lengths({9, 10}), {"a length of 10", "Tk = 9", "0 … Tk"});
  expect_mask_refused(Mask::lengths({-1, 9}), {"a length of -1", "Tk = 9"});
  // Also as a part of a larger mask.
  expect_mask_refused(Mask::causal(QueryPositions::top_left()) & Mask::lengths({9, 10}), {"a length of 10"});
}

TEST_F(BadInput, ACausalMaskWithTqOtherThanTkAndNoAlignmentIsRefused) {
  expect_mask_refused(Mask::causal(), {"causal", "Tq = 6", "Tk = 9", "bottom_right", "top_left"});
  expect_mask_refused(Mask::window(1, 2), {"window(1, 2)", "Tq = 6", "Tk = 9", "bottom_right", "top_left"});
  expect_mask_refused(Mask::documents({0, 3}), {"documents", "Tq = 6", "Tk = 9", "bottom_right", "top_left"});
}

TEST_F(BadInput, OffsetsForAnotherBatchAreRefused) {
  expect_mask_refused(Mask::causal(QueryPositions::from(std::vector<int64_t>{1, 2, 3})),
                      {"causal", "3 offsets", "batch of 2"});
}

TEST_F(BadInput, DocumentsThatDoNotFitAreRefused) {
  const QueryPositions top_left = QueryPositions::top_left();
  expect_mask_refused(Mask::documents({0, 9}, top_left), {"begins at key 9", "Tk = 9"});
  expect_mask_refused(Mask::documents_by_item(std::vector<std::vector<int64_t>>{{0}, {0}, {0}}, top_left),
                      {"3 lists of documents", "batch of 2"});
}

TEST_F(BadInput, DocumentsOutOfOrderAreRefusedWhenTheMaskIsMade) {
  const auto make = [](std::vector<int64_t> starts) { return [=] { Mask::documents(starts); }; };
  expect_error("Mask::documents", make({0, 5, 3}), {"[0, 5, 3]", "out of order", "3 comes after 5"});
  expect_error("Mask::documents", make({0, 4, 4}), {"out of order", "4 comes after 4"});
  expect_error("Mask::documents", make({1, 4}), {"[1, 4]", "must begin with 0"});
  expect_error("Mask::documents", make({}), {"must begin with 0"});
  expect_error("Mask::documents", [] { Mask::documents_by_item(std::vector<std::vector<int64_t>>{}); },
               {"no list of starts"});
}

TEST_F(BadInput, AWindowOfNegativeWidthIsRefusedWhenTheMaskIsMade) {
  expect_error("Mask::window", [] { Mask::window(-1, 2); }, {"left = -1", "right = 2"});
  expect_error("Mask::window", [] { Mask::window(1, -2); }, {"left = 1", "right = -2"});
}

TEST_F(BadInput, DenseMasksForOtherSizesAreRefused) {
  const auto bits = std::make_unique<bool[]>(1000);
  const char* sizes = "with B = 2, H = 4, Tq = 6, Tk = 9";
  expect_mask_refused(Mask::keep(View<const bool, 2>(bits.get(), {9, 6})), {"dense mask of shape [1, 1, 9, 6]", sizes});
  expect_mask_refused(Mask::block(View<const bool, 2>(bits.get(), {6, 8})),
                      {"dense mask of shape [1, 1, 6, 8]", sizes});
  expect_mask_refused(Mask::keep(View<const bool, 3>(bits.get(), {3, 6, 9})),
                      {"dense mask of shape [3, 1, 6, 9]", sizes});
  expect_mask_refused(Mask::block(View<const bool, 4>(bits.get(), {2, 2, 6, 9})),
                      {"dense mask of shape [2, 2, 6, 9]", sizes});
  expect_mask_refused(Mask::keep(View<const bool, 2>(nullptr, {6, 9})), {"dense mask is a null view"});
}

TEST_F(BadInput, AScaleThatIsNotFiniteIsRefused) {
  for (const float scale : {kNan, kInfinity, -kInfinity}) {
    options.scale = scale;
    expect_refused({"scale is ", "must be finite"});
  }
}

TEST_F(BadInput, AnOutputOfAnotherShapeIsRefused) {
  out = out.slice(1, 0, 5);
  expect_forward_refused({"out has shape [2, 5, 4, 5]", "expected [2, 6, 4, 5]"});
  out = View<float, 4>(nullptr, c.out.shape());
  expect_forward_refused({"out is a null view"});
  out = View<float, 4>(c.out.data(), c.out.shape(), {0, 0, 0, 2});
  expect_forward_refused({"out has strides", "contiguous"});
}

TEST_F(BadInput, RowStatesThatDoNotFitAreRefused) {
  rows.sum = {};
  expect_forward_refused({"both views", "sum is a null view"});
  rows = {{}, c.rows.sum};
  expect_forward_refused({"both views", "shift is a null view"});
  rows = {c.rows.shift.slice(2, 0, 5), c.rows.sum};
  expect_forward_refused({"[2, 4, 5]", "[B, H, Tq] = [2, 4, 6]"});
  outputs.rows = {c.rows.shift, c.rows.sum.slice(1, 0, 3)};
  expect_backward_refused({"[2, 3, 6]", "[B, H, Tq] = [2, 4, 6]"});
  outputs.rows = {};
  expect_backward_refused({"null view", "keep them from attention_forward"});
}

TEST_F(BadInput, BackwardRefusesOutputsAndGradientsOfOtherShapes) {
  outputs.out = c.out.slice(3, 0, 4);
  expect_backward_refused({"out has shape [2, 6, 4, 4]", "expected [2, 6, 4, 5]"});
  outputs.out = c.out;
  outputs.d_out = c.d_out.slice(1, 0, 4);
  expect_backward_refused({"d_out has shape [2, 4, 4, 5]", "expected [2, 6, 4, 5]"});
  outputs.d_out = c.d_out;
  gradients.d_q = c.d_q.slice(0, 0, 1);
  expect_backward_refused({"d_q has shape [1, 6, 4, 3]", "expected [2, 6, 4, 3]"});
  gradients.d_q = c.d_q;
  gradients.d_k = c.d_k.slice(2, 0, 1);
  expect_backward_refused({"d_k has shape [2, 9, 1, 3]", "expected [2, 9, 2, 3]"});
  gradients.d_k = c.d_k;
  gradients.d_v = View<float, 4>(nullptr, c.d_v.shape());
  expect_backward_refused({"d_v is a null view of shape [2, 9, 2, 5]"});
}

TEST_F(BadInput, LogSumExpRefusesRowStatesOfAnotherShape) {
  Tensor result({2, 4, 5});
  expect_error("log_sum_exp", [&] { log_sum_exp(c.rows, result.view<3>()); },
               {"[2, 4, 6]", "expected [B, H, Tq] = [2, 4, 5]"});
  Tensor fits({2, 4, 6});
  expect_error("log_sum_exp", [&] { log_sum_exp({}, fits.view<3>()); }, {"null view"});
  expect_error("log_sum_exp", [&] { log_sum_exp(c.rows, View<float, 3>(nullptr, {2, 4, 6})); }, {"null view"});
}

}  // namespace
}  // namespace heed::test
