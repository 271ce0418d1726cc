// Modules as values: names, copies, frozen parameters; empty inputs and bad ones.
#include "heed/nn/module.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heed/nn/dropout.h"
#include "heed/nn/embedding.h"
#include "heed/nn/patch_embedding.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"
#include "tests/support/expect_error.h"
#include "tests/support/var_gradients.h"

namespace heed::test {
namespace {

nn::TransformerOptions small() {
  return {.width = 8, .heads = 2, .feed_forward = 12, .layers = 1, .decoder_layers = 1, .dropout = 0.0F};
}

bool is_0(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0F; });
}

struct Classifier {
  nn::Embedding words{10, 8};
  std::vector<nn::Linear> hidden{{8, 8}, {8, 8, {.bias = false}}};
  std::optional<nn::LayerNorm> norm;
  nn::Dropout dropout{0.5F};
  Parameter scale{{8}};

  void parts(auto&& visit) {
    visit("words", words), visit("hidden", hidden), visit("norm", norm), visit("dropout", dropout);
    visit("scale", scale);
  }
};

std::vector<std::string> names_of(const std::vector<nn::NamedParameter>& parameters) {
  std::vector<std::string> result;
  for (const nn::NamedParameter& each : parameters) result.push_back(each.name);
  return result;
}

TEST(Module, ParametersAreNamedByThePathToThem) {
  Classifier model;
  EXPECT_EQ(names_of(nn::parameters(model)),
            (std::vector<std::string>{"words.weight", "hidden.0.weight", "hidden.0.bias", "hidden.1.weight", "scale"}));
  EXPECT_EQ(nn::count_parameters(model), 80 + 64 + 8 + 64 + 8);
  model.norm.emplace(8);
  EXPECT_EQ(nn::count_parameters(model), 80 + 64 + 8 + 64 + 8 + 16);
  EXPECT_EQ(nn::parameters(model)[4].name, "norm.weight");
}

TEST(Module, ACopyHasParametersOfItsOwn) {
  nn::Transformer model(small());
  nn::initialise(model, Rng(1));
  nn::Transformer copy = model;
  const std::vector<nn::NamedParameter> originals = nn::parameters(model), copies = nn::parameters(copy);
  ASSERT_EQ(names_of(originals), names_of(copies));
  for (size_t i = 0; i < copies.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(originals[i].parameter->values(), copies[i].parameter->values()));
    EXPECT_NE(originals[i].parameter->values().data(), copies[i].parameter->values().data());
  }
  copy.encoder.layers[0].linear1.weight.values()[0] += 1.0F;
  EXPECT_NE(copy.encoder.layers[0].linear1.weight.values()[0], model.encoder.layers[0].linear1.weight.values()[0]);
}

TEST(Module, FrozenParametersGetNoGradientAndOthersTheSame) {
  nn::TransformerEncoderLayer layer(small());
  nn::initialise(layer, Rng(1));
  const Tensor x = random_tensor({2, 5, 8});
  const auto backward = [&] {
    nn::zero_gradients(layer);
    Tape tape;
    const Var leaf = tape.leaf(x);
    layer(leaf).backward(random_tensor({2, 5, 8}, 2).values());
    return std::vector<float>(leaf.gradients().begin(), leaf.gradients().end());
  };
  const std::vector<float> d_x = backward();
  const std::vector<float> linear2(layer.linear2.weight.gradient().begin(), layer.linear2.weight.gradient().end());
  EXPECT_FALSE(is_0(linear2));
  nn::freeze(layer.self_attn);
  nn::freeze(layer.norm1);
  layer.linear1.bias.set_frozen(true);
  EXPECT_EQ(backward(), d_x);
  EXPECT_TRUE(std::ranges::equal(layer.linear2.weight.gradient(), linear2));
  EXPECT_FALSE(is_0(layer.linear1.weight.gradient()));
  for (const nn::NamedParameter& each : nn::parameters(layer.self_attn)) {
    EXPECT_TRUE(is_0(each.parameter->gradient())) << each.name;
  }
  EXPECT_TRUE(is_0(layer.norm1.weight.gradient()));
  EXPECT_TRUE(is_0(layer.linear1.bias.gradient()));
  nn::freeze(layer);
  Tape tape;
  EXPECT_FALSE(layer(tape.constant(x)).needs_gradient());
}

// The slopes of ALiBi, too, outlive the module.
TEST(Module, AModuleMayBeGoneWhenBackwardRuns) {
  const Tensor x = random_tensor({1, 5, 8}), d_y = random_tensor({1, 5, 8}, 2);
  const auto make = [] {
    nn::TransformerOptions options = small();
    options.alibi = true;
    auto result = std::make_unique<nn::TransformerEncoderLayer>(options);
    nn::initialise(*result, Rng(1));
    return result;
  };
  const auto gradient = [&](bool destroyed) {
    Tape tape;
    const Var leaf = tape.leaf(x);
    auto layer = make();
    const Var y = (*layer)(leaf);
    if (destroyed) layer.reset();
    y.backward(d_y.values());
    return std::vector<float>(leaf.gradients().begin(), leaf.gradients().end());
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// An empty batch and sequences without tokens give empty results and gradients of 0. The first round leaves numbers in
// the memory of the tape, which the others must not read.
TEST(Module, EmptyInputsGiveEmptyResults) {
  nn::Transformer model(small());
  nn::initialise(model, Rng(1));
  Tape tape;
  for (const auto& [batch, source, target] :
       {std::array<int64_t, 3>{2, 4, 3}, {0, 4, 3}, {2, 4, 0}, {2, 0, 3}, {2, 0, 0}}) {
    SCOPED_TRACE(::testing::Message() << batch << " items, " << source << " and " << target << " tokens");
    const bool is_empty = batch * source * target == 0;
    nn::zero_gradients(model);
    const Var from = tape.leaf(random_tensor({batch, source, 8})), to = tape.leaf(random_tensor({batch, target, 8}));
    const Var y = model(from, to, {.target = Mask::causal()});
    EXPECT_EQ(y.shape(), (Dims{batch, target, 8}));
    y.backward(std::vector<float>(static_cast<size_t>(y.count()), is_empty ? 0.0F : 1.0F));
    EXPECT_EQ(from.gradients().size(), static_cast<size_t>(batch * source * 8));
    for (const nn::NamedParameter& each : nn::parameters(model)) {
      EXPECT_TRUE(!is_empty || is_0(each.parameter->gradient())) << each.name;
    }
    EXPECT_TRUE(!is_empty || is_0(from.gradients()));
    tape.clear();
  }
  nn::Embedding words(10, 8);
  EXPECT_EQ(words(tape, TensorOf<int64_t>({2, 0})).shape(), (Dims{2, 0, 8}));
}

TEST(ModuleInput, IdsOutsideTheVocabularyAreRefused) {
  nn::Embedding words(10, 8);
  Tape tape;
  TensorOf<int64_t> ids({2, 3});
  for (const int64_t id : {int64_t{-1}, int64_t{10}}) {
    ids.values()[4] = id;
    expect_error([&] { words(tape, ids); }, {"4", "10"});
  }
}

TEST(ModuleInput, SizesThatMakeNoModuleAreRefused) {
  expect_error("nn::Linear", [] { nn::Linear(0, 3); }, {"0 inputs", "3 outputs"});
  expect_error("nn::Embedding", [] { nn::Embedding(0, 3); }, {"0 rows"});
  expect_error("nn::Embedding", [] { nn::Embedding(5, 3, {.padding_idx = 5}); }, {"padding_idx 5", "5 rows"});
  expect_error("nn::LayerNorm", [] { nn::LayerNorm(0); }, {"0"});
  expect_error("nn::PatchEmbedding", [] { nn::PatchEmbedding(3, 8, 0); }, {"patches of 0"});
  expect_error("nn::SinusoidalPositions", [] { nn::SinusoidalPositions(0, 8); }, {"0 positions"});
  const auto attention = [](const nn::MultiheadAttentionOptions& options) {
    return [options] { nn::MultiheadAttention{options}; };
  };
  constexpr const char* kAttention = "nn::MultiheadAttention";
  expect_error(kAttention, attention({}), {"width 0", "0 heads"});
  expect_error(kAttention, attention({.width = 10, .heads = 4}), {"width 10", "4 heads", "divide"});
  expect_error(kAttention, attention({.width = 12, .heads = 4, .kv_heads = 3}), {"4 heads", "3 key/value heads"});
  expect_error(kAttention, attention({.width = 12, .heads = 4, .dropout = 1.0F}), {"dropout 1"});
  expect_error(kAttention, attention({.width = 12, .heads = 4, .bias_kv = true, .alibi = true}), {"ALiBi"});
  expect_error(kAttention, attention({.width = 12, .heads = 4, .rotary = {.width = 6, .positions = 9}}), {"6", "3"});
  nn::TransformerOptions options = small();
  options.layers = 0;
  expect_error("nn::Transformer", [&] { nn::TransformerEncoder{options}; }, {"0 layers"});
}

TEST(ModuleInput, InputsThatDoNotFitAreRefused) {
  Tape tape;
  const auto var = [&](std::vector<int64_t> shape) { return tape.constant(Tensor(std::move(shape))); };
  const nn::MultiheadAttention attention({.width = 8, .heads = 2});
  const nn::MultiheadAttention appended({.width = 8, .heads = 2, .zero_kv = true});
  for (const nn::MultiheadAttention* each : {&attention, &appended}) {
    constexpr const char* kName = "nn::MultiheadAttention";
    expect_error(kName, [&] { (*each)(var({3, 8})); }, {"[3, 8]", "[B, Tq, 8]"});
    expect_error(kName, [&] { (*each)(var({1, 3, 7})); }, {"[1, 3, 7]", "[B, Tq, 8]"});
    expect_error(kName, [&] { (*each)(var({1, 3, 8}), var({2, 4, 8}), var({2, 4, 8})); }, {"batch"});
    expect_error(kName, [&] { (*each)(var({1, 3, 8}), var({1, 4, 8}), var({1, 5, 8})); }, {"tokens"});
    expect_error([&] { (*each)(var({2, 3, 8}), {.mask = Mask::lengths({3})}); }, {"lengths"});
    expect_error([&] { (*each)(var({2, 3, 8}), {.residual = var({2, 4, 8})}); }, {"residual", "[2, 4, 8]"});
  }
  expect_error([&] { nn::Linear(8, 3)(var({2, 7})); }, {"[2, 7]", "8"});
  expect_error([&] { nn::LayerNorm(8)(var({2, 7})); }, {"7", "8"});
  expect_error("nn::LearnedPositions",
               [&] {
                 nn::LearnedPositions(4, 8)(var({1, 5, 8}));
               },
               {"5 tokens", "4 positions"});
  expect_error("nn::SinusoidalPositions", [&] { nn::SinusoidalPositions(4, 8)(var({5, 8})); }, {"[5, 8]"});
  expect_error("nn::PatchEmbedding", [&] { nn::PatchEmbedding(3, 8, 2)(var({1, 3, 4, 5})); }, {"[1, 3, 4, 5]"});
  const nn::TransformerDecoderLayer layer(small());
  expect_error([&] { layer(var({2, 3, 8}), var({2, 4, 6})); }, {"[2, 4, 6]"});
}

}  // namespace
}  // namespace heed::test
