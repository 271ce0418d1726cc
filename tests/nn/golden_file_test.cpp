#include "tests/support/golden_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <utility>

#include "tests/support/expect_error.h"
#include "tests/support/golden.h"

namespace heed::test {
namespace {

NnGolden find_golden(const std::string& file, const std::string& name) {
  for (NnGolden& golden : load_nn_goldens(file)) {
    if (golden.name() == name) return std::move(golden);
  }
  fail("find_golden", file, " has no case ", name);
}

// y = x Wᵀ + b in double gives the output of the file.
TEST(GoldenFile, TensorsHaveTheirNamesAndOrder) {
  const NnGolden golden = find_golden("linear", "bias");
  const Doubles& x = golden.doubles("in/x");  // [B, T, inputs]
  const Doubles& weight = golden.doubles("param/weight");
  const Doubles& bias = golden.doubles("param/bias");
  const Doubles& y = golden.doubles("out/y");  // [B, T, outputs]
  const auto inputs = static_cast<size_t>(golden.option<int64_t>("arguments/in_features"));
  const auto outputs = static_cast<size_t>(golden.option<int64_t>("arguments/out_features"));
  ASSERT_EQ(weight.shape, (std::vector<int64_t>{11, 8}));
  ASSERT_EQ(y.shape, (std::vector<int64_t>{2, 5, 11}));
  ASSERT_EQ(y.values.size(), size_t{2} * 5 * 11);
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t token = i / outputs, output = i % outputs;
    double sum = bias.values[output];
    for (size_t c = 0; c < inputs; ++c) sum += x.values[token * inputs + c] * weight.values[output * inputs + c];
    EXPECT_NEAR(y.values[i], sum, 1e-14);
  }
}

TEST(GoldenFile, InputsAndParametersAreExactInF32) {
  const NnGolden golden = find_golden("linear", "bias");
  for (const std::string name : {"in/x", "in/d_y", "param/weight", "param/bias"}) {
    const Tensor rounded = golden.tensor(name);
    const Doubles& exact = golden.doubles(name);
    ASSERT_EQ(rounded.shape(), exact.shape);
    for (size_t i = 0; i < exact.values.size(); ++i) {
      EXPECT_EQ(static_cast<double>(rounded.values()[i]), exact.values[i]);
    }
  }
}

TEST(GoldenFile, EveryParameterHasAGradientOfItsShape) {
  for (const std::string file : {"linear", "multihead", "transformer"}) {
    for (const NnGolden& golden : load_nn_goldens(file)) {
      const std::vector<std::string> names = golden.names("param/");
      EXPECT_FALSE(names.empty());
      EXPECT_EQ(names, golden.names("grad/"));
      for (const std::string& name : names) {
        EXPECT_EQ(golden.doubles("param/" + name).shape, golden.doubles("grad/" + name).shape);
      }
    }
  }
}

// The row of padding_idx has no gradient, although it is read.
TEST(GoldenFile, IdsAreWholeNumbers) {
  const NnGolden golden = find_golden("embedding", "padding_first");
  const TensorOf<int64_t>& ids = golden.ids("in/ids");
  EXPECT_EQ(ids.shape(), (std::vector<int64_t>{2, 6}));
  const std::set<int64_t> values(ids.values().begin(), ids.values().end());
  EXPECT_TRUE(values.contains(0));
  EXPECT_LT(*values.rbegin(), golden.option<int64_t>("arguments/num_embeddings"));
  for (size_t c = 0; c < 8; ++c) EXPECT_EQ(golden.doubles("grad/weight").values[c], 0.0);
}

TEST(GoldenFile, OptionsAreReadByPath) {
  const NnGolden golden = find_golden("decoder_layer", "pre_norm_gelu_all_masks");
  EXPECT_EQ(golden.option<std::string>("module"), "TransformerDecoderLayer");
  EXPECT_TRUE(golden.option<bool>("arguments/norm_first"));
  EXPECT_EQ(golden.option<std::string>("masks/tgt_mask"), "causal");
  EXPECT_EQ(golden.option<std::vector<int64_t>>("masks/memory_key_padding_mask"), (std::vector<int64_t>{2, 4}));
  EXPECT_EQ(golden.ids("in/memory_key_padding_mask").shape(), (std::vector<int64_t>{2, 4}));
  EXPECT_FALSE(golden.has_option("arguments/layer_norm_eps"));
  EXPECT_EQ(golden.option("arguments/layer_norm_eps", 1e-5), 1e-5);
  EXPECT_FALSE(find_golden("embedding", "plain").has_option("arguments/padding_idx"));
}

TEST(GoldenFile, WhatIsMissingIsAnError) {
  const NnGolden golden = find_golden("linear", "no_bias");
  EXPECT_FALSE(golden.has("param/bias"));
  expect_error("NnGolden::doubles", [&] { golden.doubles("param/bias"); }, {"linear", "no_bias", "param/bias"});
  expect_error("NnGolden::ids", [&] { golden.ids("in/x"); }, {"linear", "no_bias", "in/x"});
  expect_error("NnGolden::option", [&] { golden.option<int64_t>("arguments/bias"); }, {"false", "arguments/bias"});
  expect_error("NnGolden::option", [&] { golden.option<bool>("bias"); }, {"null"});
  expect_error([] { load_nn_goldens("nothing"); }, {"nothing.safetensors"});
}

TEST(GoldenFile, EveryFileOpens) {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path("nn"))) {
    files.insert(entry.path().stem().string());
    EXPECT_FALSE(load_nn_goldens(entry.path().stem().string()).empty()) << entry.path();
  }
  EXPECT_TRUE(files.contains("training"));
}

}  // namespace
}  // namespace heed::test
