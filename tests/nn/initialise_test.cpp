// Initial distributions are PyTorch's: their bounds, means and variances, by the formulas of its documentation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "heed/nn/embedding.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/linear.h"
#include "heed/nn/module.h"
#include "heed/nn/multihead_attention.h"
#include "heed/nn/norm.h"
#include "heed/nn/patch_embedding.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"
#include "tests/support/expect_error.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

struct Moments {
  double mean = 0.0, deviation = 0.0, largest = 0.0;
  double count = 0.0;
};

Moments moments_of(const Parameter& parameter) {
  Moments result;
  double sum = 0.0, squares = 0.0;
  for (const float value : parameter.values()) {
    const auto wide = static_cast<double>(value);
    sum += wide;
    squares += wide * wide;
    result.largest = std::max(result.largest, std::abs(wide));
  }
  result.count = static_cast<double>(parameter.count());
  result.mean = sum / result.count;
  result.deviation = std::sqrt(squares / result.count - result.mean * result.mean);
  return result;
}

// Mean and deviation within five standard errors. The deviation of n numbers of kurtosis κ varies by √((κ - 1) / 4n).
void expect_moments(const Moments& got, double deviation, double kurtosis) {
  EXPECT_NEAR(got.mean, 0.0, 5.0 * deviation / std::sqrt(got.count));
  EXPECT_NEAR(got.deviation, deviation, 5.0 * deviation * std::sqrt((kurtosis - 1.0) / (4.0 * got.count)));
}

// Uniform in ±bound, reaching nearly to it.
void expect_uniform(const Parameter& parameter, double bound) {
  const Moments got = moments_of(parameter);
  EXPECT_LE(got.largest, bound * (1.0 + 1e-6));
  EXPECT_GE(got.largest, bound * (1.0 - 20.0 / got.count));
  expect_moments(got, bound / std::sqrt(3.0), 1.8);
}

void expect_normal(const Parameter& parameter, double deviation) {
  expect_moments(moments_of(parameter), deviation, 3.0);
}

void expect_constant(const Parameter& parameter, float value) {
  for (const float each : parameter.values()) ASSERT_EQ(each, value);
}

// ±√(6 / (inputs + outputs)).
double xavier(int64_t inputs, int64_t outputs) { return std::sqrt(6.0 / static_cast<double>(inputs + outputs)); }

TEST(Initialise, LinearIsUniformByItsInputs) {
  nn::Linear linear(64, 48);
  nn::initialise(linear, Rng(1));
  expect_uniform(linear.weight, 0.125);
  expect_uniform(linear.bias, 0.125);
}

TEST(Initialise, EmbeddingsAreNormalAndPaddingIs0) {
  nn::Embedding embedding(100, 32, {.padding_idx = 3});
  nn::LearnedPositions positions(100, 32);
  nn::initialise(embedding, Rng(2));
  nn::initialise(positions, Rng(2));
  expect_normal(positions.weight, 1.0);
  const View<const float, 2> table = std::as_const(embedding.weight).value<2>();
  for (int64_t c = 0; c < 32; ++c) EXPECT_EQ(table(3, c), 0.0F);
  EXPECT_NEAR(moments_of(embedding.weight).deviation, std::sqrt(0.99), 0.07);
}

TEST(Initialise, NormsAre1And0) {
  nn::LayerNorm layer_norm(16);
  nn::RMSNorm rms_norm(16);
  std::fill(layer_norm.weight.values().begin(), layer_norm.weight.values().end(), 7.0F);
  std::fill(layer_norm.bias.values().begin(), layer_norm.bias.values().end(), 7.0F);
  nn::initialise(layer_norm, Rng(3));
  expect_constant(layer_norm.weight, 1.0F);
  expect_constant(layer_norm.bias, 0.0F);
  expect_constant(rms_norm.weight, 1.0F);
}

TEST(Initialise, AttentionIsGlorotsWithBiasesOf0) {
  nn::MultiheadAttention attention({.width = 32, .heads = 4, .bias_kv = true});
  nn::initialise(attention, Rng(4));
  expect_uniform(attention.in_proj_weight, xavier(32, 96));
  expect_uniform(attention.out_proj.weight, 1.0 / std::sqrt(32.0));
  expect_constant(attention.in_proj_bias, 0.0F);
  expect_constant(attention.out_proj.bias, 0.0F);
  expect_normal(attention.bias_k, std::sqrt(2.0 / 64.0));
  expect_normal(attention.bias_v, std::sqrt(2.0 / 64.0));
  nn::MultiheadAttention apart({.width = 32, .heads = 4, .key_width = 16, .value_width = 48});
  nn::initialise(apart, Rng(4));
  expect_uniform(apart.q_proj_weight, xavier(32, 32));
  expect_uniform(apart.k_proj_weight, xavier(16, 32));
  expect_uniform(apart.v_proj_weight, xavier(48, 32));
}

TEST(Initialise, PatchesAreUniformByThePixelsOfAPatch) {
  nn::PatchEmbedding patches(3, 64, 4);
  nn::initialise(patches, Rng(5));
  expect_uniform(patches.weight, 1.0 / std::sqrt(48.0));
  expect_uniform(patches.bias, 1.0 / std::sqrt(48.0));
}

// All matrices of Transformer by Glorot and Bengio; an encoder alone has what its modules have.
TEST(Initialise, OnlyTransformerDrawsAllMatricesByGlorot) {
  const nn::TransformerOptions options{.width = 32, .heads = 4, .feed_forward = 64, .layers = 1, .decoder_layers = 1};
  nn::Transformer transformer(options);
  nn::initialise(transformer, Rng(6));
  const nn::TransformerEncoderLayer& layer = transformer.encoder.layers[0];
  expect_uniform(layer.linear1.weight, xavier(32, 64));
  expect_uniform(layer.linear1.bias, 1.0 / std::sqrt(32.0));
  expect_uniform(layer.self_attn.in_proj_weight, xavier(32, 96));
  expect_uniform(layer.self_attn.out_proj.weight, xavier(32, 32));
  expect_constant(layer.norm1.weight, 1.0F);
  expect_uniform(transformer.decoder.layers[0].multihead_attn.out_proj.weight, xavier(32, 32));
  nn::TransformerEncoder encoder(options);
  nn::initialise(encoder, Rng(6));
  expect_uniform(encoder.layers[0].linear1.weight, 1.0 / std::sqrt(32.0));
}

std::vector<float> all_values(const std::vector<nn::NamedParameter>& parameters) {
  std::vector<float> result;
  for (const nn::NamedParameter& each : parameters) {
    result.insert(result.end(), each.parameter->values().begin(), each.parameter->values().end());
  }
  return result;
}

TEST(Initialise, TheSeedDeterminesEveryBit) {
  const nn::TransformerOptions options{.width = 16, .heads = 2, .feed_forward = 8, .layers = 2};
  nn::TransformerEncoder first(options), second(options), other(options);
  nn::initialise(first, Rng(7));
  {
    const Threads threads(3);
    nn::initialise(second, Rng(7));
  }
  nn::initialise(other, Rng(8));
  EXPECT_EQ(all_values(nn::parameters(first)), all_values(nn::parameters(second)));
  EXPECT_NE(all_values(nn::parameters(first)), all_values(nn::parameters(other)));
  const std::span<const float> one = std::as_const(first.layers[0].linear1.weight).values();
  const std::span<const float> two = std::as_const(first.layers[1].linear1.weight).values();
  EXPECT_FALSE(std::equal(one.begin(), one.end(), two.begin())) << "two layers have the same numbers";
}

TEST(Initialise, AVectorHasNoInputsAndOutputs) {
  Parameter vector({8});
  nn::Initialiser draw(Rng(1));
  expect_error("xavier_uniform", [&] { draw.xavier_uniform(vector); }, {"[8]", "[outputs, inputs"});
}

}  // namespace
}  // namespace heed::test
