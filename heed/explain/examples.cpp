#include "heed/explain/examples.h"

#include <algorithm>
#include <cmath>

#include "heed/core/rng.h"

namespace heed::explain {
namespace {

using Rows = std::vector<std::vector<float>>;

Tensor tensor(const Rows& rows, std::vector<int64_t> shape) {
  Tensor made(std::move(shape));
  auto to = made.values().begin();
  for (const std::vector<float>& row : rows) to = std::copy(row.begin(), row.end(), to);
  return made;
}

// [T, C] as [1, T, C], and [T, D] as [1, T, 1, D].
Tensor tokens(const Rows& rows) {
  return tensor(rows, {1, static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows[0].size())});
}
Tensor one_head(const Rows& rows) {
  return tensor(rows, {1, static_cast<int64_t>(rows.size()), 1, static_cast<int64_t>(rows[0].size())});
}

// Examples write weights as row vectors take them, [inputs, outputs]; layers keep them as [outputs, inputs].
Tensor weight(const Rows& rows) {
  Tensor made({static_cast<int64_t>(rows[0].size()), static_cast<int64_t>(rows.size())});
  const View<float, 2> to = made.view<2>();
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t j = 0; j < rows[i].size(); ++j) to(j, i) = rows[i][j];
  }
  return made;
}

const Rows kX = {{-0.1F, 0.1F, 0.3F}, {0.4F, -1.1F, -0.3F}};
const Rows kC = {{-0.6F, 0.3F, -0.4F}, {0.5F, 0.9F, -0.5F}};
const Rows kE = {{0.1F, 0.2F, 0.3F, 0.4F}, {0.5F, 0.6F, 0.7F, 0.8F}, {0.9F, 1.0F, 1.1F, 1.2F}};

// One head of width 3, without biases.
Layer small_layer() {
  return Layer::of(weight({{-0.35F, 0.51F, 0.50F}, {0.36F, -0.47F, -0.29F}, {-0.51F, -0.14F, -0.56F}}),
                   weight({{-0.49F, -0.68F, 0.18F}, {-0.44F, -0.46F, 0.18F}, {0.07F, -0.10F, 0.44F}}),
                   weight({{-0.41F, 0.39F, -0.65F}, {-0.40F, -0.07F, -0.34F}, {-0.55F, -0.13F, -0.29F}}),
                   weight({{-0.36F, -0.08F, 0.32F}, {0.27F, 0.05F, 0.15F}, {-0.05F, -0.28F, 0.05F}}));
}

AttendCase small_case(const Rows& x) {
  AttendCase made;
  made.x = tokens(x);
  made.layer = small_layer();
  return made;
}

AttendCase one_token() {
  AttendCase made = small_case({kX[0]});
  made.notes = {
      "A softmax over one key has nothing to choose: the weight is 1 whatever the score, so heads is v itself.",
      "The answer of the layer is out, not heads: W_O is still to come, even with one head."};
  return made;
}

AttendCase self() {
  AttendCase made = small_case(kX);
  made.notes = {
      "The scale is 1/√d_k, where d_k is the width of one head's queries and keys: 3 here. It is neither the number of "
      "tokens nor, with several heads, the width of the model.",
      "Row i of the scores belongs to query i. The softmax runs along the row: rows sum to 1, columns need not."};
  return made;
}

AttendCase masked() {
  AttendCase made = small_case(kX);
  made.causal = true;
  made.notes = {
      "The mask acts before the softmax, as −∞. Zeros put in after it would leave rows that no longer sum to 1.",
      "The first token sees itself alone, so its row is that of one-token: weight 1. Row 1 sees both tokens and is the "
      "same as without a mask."};
  return made;
}

AttendCase cross() {
  AttendCase made = small_case(kC);
  made.context = tokens(kX);
  made.notes = {
      "Queries come from one sequence (x, a decoder's), keys and values from another (context, an encoder's). Weights "
      "are queries × keys and need not be square.",
      "There is no causal mask here: the whole context is known before the first query is asked."};
  return made;
}

AttendCase sigmoid() {
  AttendCase made = small_case(kX);
  made.sigmoid = true;
  made.notes = {
      "Each weight stands for itself: rows do not sum to 1, and a hidden key leaves the other weights as they were.",
      "A formula that says sigmoid beside weights that sum to 1 is softmax under another name."};
  return made;
}

AttendCase plain() {
  AttendCase made;
  made.q = made.k = made.v = one_head(kE);
  made.query_tokens = made.key_tokens = {"I", "like", "cats"};
  made.contrast = Contrast::build_up;
  made.notes = {
      "Attention without parameters: y_i is a weighted mean of all rows of D, weighted by how alike they are to row i.",
      "Queries, keys and values are the same numbers here. W_Q, W_K and W_V are what lets a token ask, answer and "
      "speak "
      "with different ones."};
  return made;
}

AttendCase three_masks() {
  AttendCase made = plain();
  made.causal = true;
  made.contrast = Contrast::three_masks;
  made.notes = {
      "To hide a key, its score must become −∞ before the softmax: e^−∞ is exactly 0, and the other weights grow to "
      "fill "
      "the row. A score of 0 hides nothing: e^0 is 1.",
      "Hidden weights are exactly 0, not near zero."};
  return made;
}

AttendCase cats() {
  AttendCase made;
  made.q = one_head({{0.2F, 0.4F, 0.6F, 0.8F}, {0.1F, 0.3F, 0.5F, 0.7F}});
  made.k = made.v = one_head(kE);
  made.query_tokens = {"Me", "gustan"};
  made.key_tokens = {"I", "like", "cats"};
  made.notes = {
      "Each query is multiplied with every key: three scores a query, and √4 = 2 divides them before the softmax.",
      "A larger score of a row always has a larger weight in it; a table of weights that says otherwise has a slip."};
  return made;
}

// With k = 1 (the identity) and scale 1 the scaled scores are q itself.
AttendCase gustan() {
  AttendCase made;
  made.q = one_head({{1.0F, 0.8F}, {0.9F, 1.1F}});
  made.k = one_head({{1.0F, 0.0F}, {0.0F, 1.0F}});
  made.v = one_head({{0.1F, 0.2F, 0.3F, 0.4F}, {0.5F, 0.6F, 0.7F, 0.8F}});
  made.scale = 1.0F;
  made.causal = true;
  made.query_tokens = made.key_tokens = {"Me", "gustan"};
  made.notes = {
      "Scaled scores are what is given here. They are put in as q, with the identity as k and a scale of 1, so that "
      "scaled is exactly them.",
      "Weights are not shares of the scores: 0.9 and 1.1 give 0.4502 and 0.5498 by way of e^0.9 and e^1.1."};
  return made;
}

// W[i][j] of a head's matrix in two-heads: 0.1 · cos(i + 2j + 3·head + matrix).
float two_heads_entry(int64_t i, int64_t j, int64_t head, int64_t matrix) {
  return static_cast<float>(0.1 * std::cos(static_cast<double>(i + 2 * j + 3 * head + matrix)));
}

AttendCase two_heads() {
  constexpr int64_t kWidth = 8;
  constexpr int64_t kHead = 4;
  AttendCase made;
  made.x = Tensor({1, 2, kWidth});
  for (int64_t i = 0; i < 2 * kWidth; ++i) made.x.values()[static_cast<size_t>(i)] = 0.1F * static_cast<float>(i + 1);
  made.heads = 2;
  const Tensor zeros({kWidth, kWidth});
  made.layer = Layer::of(zeros, zeros, zeros, zeros);
  const MultiHeadParameters<float> weights = made.layer.parameters();
  int64_t m = 0;
  for (const View<float, 2>& to : {weights.q, weights.k, weights.v, weights.out}) {  // [outputs, inputs]
    for (int64_t out = 0; out < kWidth; ++out) {
      for (int64_t in = 0; in < kWidth; ++in) {
        // A head owns columns of W_Q, W_K and W_V, and rows of W_O.
        to(out, in) =
            m == 3 ? two_heads_entry(in % kHead, out, in / kHead, m) : two_heads_entry(in, out % kHead, out / kHead, m);
      }
    }
    ++m;
  }
  for (int64_t i = 0; i < kWidth; ++i) {
    for (int64_t j = 0; j < kHead; ++j) {
      weights.q(j, i) = static_cast<float>(0.1 * static_cast<double>(j + 1) + 0.4 * static_cast<double>(i) / 7.0);
    }
  }
  made.causal = true;
  made.query_tokens = made.key_tokens = {"Me", "gustan"};
  made.notes = {
      "Notes write both W·D and D·W; with tokens as rows only D·W fits: [2, 8] × [8, 4] → [2, 4] for each head.",
      "Each head has its own columns of W_Q, W_K and W_V, its own scores and its own mask, which is the same for all. "
      "Notes count heads from 1: their head 1 is head 0 here.",
      "The scale is 1/√4, from the width of one head, not 1/√8 from that of the model. At a real size: d_model 512, 8 "
      "heads, 64 a head."};
  return made;
}

// Normal values: unit variance times the deviation.
Tensor drawn(std::vector<int64_t> shape, uint64_t seed, float deviation) {
  Tensor made(std::move(shape));
  Rng(seed).fill_normal(made.values(), deviation);
  return made;
}

AttendCase eight_heads() {
  constexpr int64_t kWidth = 1024;
  AttendCase made;
  made.x = drawn({1, 4, kWidth}, 1, 1.0F);
  made.heads = 8;
  const auto weight = [](uint64_t seed) { return drawn({kWidth, kWidth}, seed, 1.0F / 32.0F); };
  made.layer = Layer::of(weight(2), weight(3), weight(4), weight(5));
  made.query_tokens = made.key_tokens = {"I", "love", "pepperoni", "pizza"};
  made.notes = {
      "Eight heads of 128 cost as much as one of 1024: each works on its own part of q, k and v.",
      "W_O lets the heads mix: without it each group of 128 outputs would stay independent (--no-out stops there).",
      "With --causal the rows stand for \"I\", \"I love\", \"I love pepperoni\" and \"I love pepperoni pizza\". Four "
      "image "
      "patches would be treated the same."};
  return made;
}

AttendCase widths() {
  constexpr int64_t kModel = 6, kKeys = 4, kValues = 3, kHeads = 2, kLength = 5;
  AttendCase made;
  made.x = drawn({1, kLength, kModel}, 11, 1.0F);
  made.context = drawn({1, kLength, kModel}, 12, 1.0F);
  made.heads = kHeads;
  const float deviation = 1.0F / std::sqrt(static_cast<float>(kModel));
  made.layer =
      Layer::of(drawn({kHeads * kKeys, kModel}, 13, deviation), drawn({kHeads * kKeys, kModel}, 14, deviation),
                drawn({kHeads * kValues, kModel}, 15, deviation), drawn({kModel, kHeads * kValues}, 16, deviation));
  made.query_tokens = {"y1", "y2", "y3", "y4", "y5"};
  made.key_tokens = {"z1", "z2", "z3", "z4", "z5"};
  made.notes = {
      "Queries and keys must be of one width (m = 4), because they are multiplied with each other. Values have a width "
      "of their own (l = 3), and W_O takes s·l = 6 numbers a token.",
      "Parameters: d·(2m + l)·s + s·l·d = 6·11·2 + 36 = 168.",
      "A mask put before or after the scale is the same: −∞ times a positive scale is −∞."};
  return made;
}

struct Example {
  ExampleName name;
  AttendCase (*make)();
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {
      {{"one-token", "one token attending to itself: the smallest layer there is"}, one_token},
      {{"self", "self-attention of two tokens, one head of width 3"}, self},
      {{"masked", "the same with a causal mask"}, masked},
      {{"cross", "queries from one sequence, keys and values from another"}, cross},
      {{"sigmoid", "each weight by a sigmoid of its own instead of a softmax"}, sigmoid},
      {{"plain", "attention without parameters, built up step by step"}, plain},
      {{"three-masks", "why −∞ before the softmax: three ways to hide the future, side by side"}, three_masks},
      {{"cats", "encoder-decoder attention without projections: \"I like cats\" → \"Me gustan\""}, cats},
      {{"gustan", "masked self-attention from given scores"}, gustan},
      {{"two-heads", "masked multi-head attention: d_model 8, 2 heads of 4"}, two_heads},
      {{"eight-heads", "the seven steps at a real size: d_model 1024, 8 heads of 128"}, eight_heads},
      {{"widths", "values of a width of their own: d 6, keys 4, values 3, 2 heads"}, widths},
  };
  return all;
}

}  // namespace

const std::vector<ExampleName>& example_names() {
  static const std::vector<ExampleName> names = [] {
    std::vector<ExampleName> made;
    for (const Example& each : examples()) made.push_back(each.name);
    return made;
  }();
  return names;
}

AttendCase example(const std::string& name) {
  std::string known;
  for (const Example& each : examples()) {
    if (each.name.name == name) {
      AttendCase made = each.make();
      made.name = name;
      made.title = name + ": " + each.name.about;
      return made;
    }
    known += known.empty() ? each.name.name : ", " + each.name.name;
  }
  fail("example", "there is no example '", name, "'; there are ", known);
}

}  // namespace heed::explain
