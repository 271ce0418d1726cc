// load_multihead: layers by the names of torch.nn.MultiheadAttention.
#include "heed/nn/multihead_weights.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heed/attention/projection.h"
#include "heed/io/safetensors.h"
#include "tests/io/expect_file_error.h"
#include "tests/support/attention_case.h"
#include "tests/support/expect_error.h"
#include "tests/support/golden.h"
#include "tests/support/layer_case.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

using Named = std::vector<std::pair<std::string, const Tensor*>>;

class LoadMultiHead : public ::testing::Test {
 protected:
  void write(const Named& tensors) const { io::write_safetensors(path, tensors); }

  void expect_refused(const Named& tensors, const std::vector<std::string>& parts, const std::string& hint,
                      const HeadCounts& counts = {}) const {
    write(tensors);
    expect_file_error([&] { load_multihead(path, "", counts); }, path, parts, hint);
  }

  TemporaryDirectory directory;
  std::string path = directory.path() + "/layer.safetensors";
};

std::vector<float> part(const Tensor& tensor, int64_t first, int64_t count) {
  const auto begin = tensor.values().begin() + first;
  return {begin, begin + count};
}

TEST_F(LoadMultiHead, OneMatrixIsCutIntoThree) {
  const Tensor in = normal({12, 4}, 1), in_bias = normal({12}, 2), out = normal({5, 4}, 3), out_bias = normal({5}, 4);
  write({{"a.in_proj_weight", &in},
         {"a.in_proj_bias", &in_bias},
         {"a.out_proj.weight", &out},
         {"a.out_proj.bias", &out_bias},
         {"b.in_proj_weight", &out}});
  for (const HeadCounts counts : {HeadCounts{}, {.heads = 2}, {.heads = 4, .kv_heads = 4}}) {
    const MultiHeadWeights layer = load_multihead(path, "a.", counts);
    const MultiHeadParameters<const float> p = layer.parameters();
    EXPECT_EQ(p.k.shape(), (Shape<2>{4, 4}));
    EXPECT_EQ(values_of(p.q), part(in, 0, 16));
    EXPECT_EQ(values_of(layer.parameters().k), part(in, 16, 16));
    EXPECT_EQ(values_of(layer.parameters().v), part(in, 32, 16));
    EXPECT_EQ(values_of(layer.parameters().q_bias), part(in_bias, 0, 4));
    EXPECT_EQ(values_of(layer.parameters().k_bias), part(in_bias, 4, 4));
    EXPECT_EQ(values_of(layer.parameters().v_bias), part(in_bias, 8, 4));
    EXPECT_EQ(floats(layer.out), floats(out));
    EXPECT_EQ(floats(layer.out_bias), floats(out_bias));
  }
}

TEST_F(LoadMultiHead, FewerKeyValueHeadsTakeTheirShareOfTheMatrix) {
  const Tensor in = normal({16, 3}, 1), out = normal({5, 8}, 2);  // 4 + 2·2 heads of width 2
  write({{"in_proj_weight", &in}, {"out_proj.weight", &out}});
  const MultiHeadWeights layer = load_multihead(path, "", {.heads = 4, .kv_heads = 2});
  EXPECT_EQ(values_of(layer.parameters().q), part(in, 0, 8 * 3));
  EXPECT_EQ(values_of(layer.parameters().k), part(in, 8 * 3, 4 * 3));
  EXPECT_EQ(values_of(layer.parameters().v), part(in, 12 * 3, 4 * 3));
  EXPECT_EQ(layer.in_bias.count(), 0);
  EXPECT_EQ(layer.parameters().q_bias.data(), nullptr);
}

// W_Q, W_K and W_V stay in one memory: they are one product, with the bits of three.
TEST_F(LoadMultiHead, LoadedWeightsAreOneProductWithTheBitsOfThree) {
  const Tensor in = normal({16, 6}, 1), in_bias = normal({16}, 2), out = normal({6, 8}, 3);  // 4 + 2·2 heads of width 2
  write({{"in_proj_weight", &in}, {"in_proj_bias", &in_bias}, {"out_proj.weight", &out}});
  const MultiHeadWeights layer = load_multihead(path, "", {.heads = 4, .kv_heads = 2});
  const MultiHeadParameters<const float> p = layer.parameters();
  EXPECT_TRUE(projections_of(p).qkv.given());
  const Tensor x = normal({2, 5, 6}, 4);
  MultiHeadOptions options;
  options.heads = 4;
  options.kv_heads = 2;
  const auto forward = [&](const MultiHeadParameters<const float>& parameters) {
    MultiHeadState state;
    Tensor y({2, 5, 6});
    multihead_forward(MultiHeadInputs::self(x.view<3>()), parameters, options, state, y.view<3>());
    EXPECT_TRUE(state.fused);
    return floats(y);
  };
  MultiHeadParameters<const float> apart = p;
  const std::vector<float> k = values_of(p.k);
  apart.k = {k.data(), p.k.shape()};
  EXPECT_FALSE(projections_of(apart).qkv.given());
  EXPECT_TRUE(same_bits(forward(p), forward(apart)));
  // A copy has views of its own.
  const MultiHeadWeights copy = layer;
  EXPECT_NE(copy.parameters().q.data(), p.q.data());
  EXPECT_TRUE(projections_of(copy.parameters()).qkv.given());
}

TEST_F(LoadMultiHead, MatricesOfTheirOwnAndNoOutput) {
  const Tensor q = normal({4, 3}, 1), k = normal({4, 5}, 2), v = normal({6, 2}, 3), bias = normal({14}, 4);
  write({{"q_proj_weight", &q}, {"k_proj_weight", &k}, {"v_proj_weight", &v}, {"in_proj_bias", &bias}});
  const MultiHeadWeights layer = load_multihead(path);
  EXPECT_EQ(values_of(layer.parameters().k), floats(k));
  EXPECT_EQ(values_of(layer.parameters().v_bias), part(bias, 8, 6));
  EXPECT_FALSE(layer.out.count() > 0);
  EXPECT_EQ(layer.parameters().out.data(), nullptr);
  EXPECT_EQ(layer.parameters().v.shape(), (Shape<2>{6, 2}));
}

// Every golden layer of PyTorch, through a file.
TEST_F(LoadMultiHead, LayersOfPyTorchHaveTheirTensorsAgain) {
  int layers = 0;
  for (const GoldenCase& golden : load_goldens("multihead.txt")) {
    SCOPED_TRACE(golden.name);
    Named tensors;
    for (const auto& [name, tensor] : golden.tensors) {
      if (name.find("proj") != std::string::npos && !name.starts_with("d_")) tensors.emplace_back(name, &tensor);
    }
    write(tensors);
    const HeadCounts counts{.heads = std::stoll(golden.texts.at("heads"))};
    const MultiHeadWeights layer = load_multihead(path, "", counts);
    const MultiHeadParameters<const float> p = layer.parameters();
    const auto expect_same = [&](const std::string& name, const auto& loaded, int64_t from, int64_t parts) {
      if (!golden.tensors.contains(name)) return;
      const Tensor& saved = golden.tensors.at(name);
      EXPECT_EQ(values_of(loaded), part(saved, saved.count() / parts * from, saved.count() / parts)) << name;
    };
    expect_same("in_proj_weight", p.q, 0, 3);
    expect_same("in_proj_weight", p.k, 1, 3);
    expect_same("in_proj_weight", p.v, 2, 3);
    expect_same("q_proj_weight", p.q, 0, 1);
    expect_same("k_proj_weight", p.k, 0, 1);
    expect_same("v_proj_weight", p.v, 0, 1);
    expect_same("out_proj.weight", p.out, 0, 1);
    expect_same("out_proj.bias", p.out_bias, 0, 1);
    ++layers;
  }
  EXPECT_GT(layers, 3);
}

TEST_F(LoadMultiHead, WhatIsNoLayerIsRefusedByName) {
  const Tensor in = normal({12, 4}, 1), odd = normal({7, 4}, 2), bias = normal({5}, 3), out = normal({4, 6}, 4);
  expect_refused({{"something", &in}}, {"neither in_proj_weight nor", "it has something"}, "it has something");
  expect_refused({{"in_proj_weight", &in}, {"q_proj_weight", &in}}, {"both in_proj_weight and q_proj_weight"}, "one");
  expect_refused({{"in_proj_weight", &in}, {"bias_k", &bias}}, {"bias_k and bias_v"}, "add_bias_kv");
  expect_refused({{"in_proj_weight", &bias}}, {"in_proj_weight has shape [5]"}, "[outputs, inputs]");
  expect_refused({{"in_proj_weight", &odd}}, {"has 7 rows, which three parts do not divide"}, "W_Q, W_K and W_V");
  expect_refused({{"in_proj_weight", &in}, {"in_proj_bias", &bias}}, {"has 5 values for 12 outputs"}, "one layer");
  expect_refused({{"in_proj_weight", &in}, {"out_proj.weight", &out}}, {"shape [4, 6]", "width 4"}, "both counts");
  expect_refused({{"in_proj_weight", &in}}, {"heads 3 does not divide the width 4 (4/3 = 1.333)"}, "1, 2, 4",
                 {.heads = 3});
  expect_refused({{"in_proj_weight", &in}}, {"has 12 rows, which 5 + 2*1 heads do not divide"}, "",
                 {.heads = 5, .kv_heads = 1});
  expect_refused({{"q_proj_weight", &in}, {"k_proj_weight", &out}, {"v_proj_weight", &in}},
                 {"12 rows for 2 heads, k_proj_weight 4 for 2"}, "one width", {.heads = 2});
  expect_file_error([&] { load_multihead(path + ".none"); }, path + ".none", {}, "");
}

TEST_F(LoadMultiHead, HeadsThatAreNoMultipleAreRefused) {
  const auto refused = [&](const HeadCounts& counts) {
    expect_error("load_multihead", [&] { load_multihead(path, "", counts); }, {"not a multiple"});
  };
  refused({.heads = 3, .kv_heads = 2});
  refused({.heads = -1, .kv_heads = 0});
  refused({.heads = 0, .kv_heads = 2});
}

// Views of a temporary would dangle.
template <class Weights>
constexpr bool kHasParameters = requires(Weights&& weights) {
  std::forward<Weights>(weights).parameters();
};
static_assert(kHasParameters<MultiHeadWeights&> && !kHasParameters<MultiHeadWeights>);

}  // namespace
}  // namespace heed::test
