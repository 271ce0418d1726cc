// State dicts: what is saved is what is loaded, and a file that does not fit changes nothing.
#include "heed/nn/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "heed/io/file_error.h"
#include "heed/nn/transformer.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

nn::TransformerEncoder small_encoder(uint64_t seed, int64_t layers = 2, bool bias = true) {
  nn::TransformerEncoder result(
      {.width = 8, .heads = 2, .feed_forward = 12, .layers = layers, .bias = bias, .final_norm = true});
  nn::initialise(result, Rng(seed));
  return result;
}

template <class Model>
std::vector<float> values_of(Model& model) {
  std::vector<float> result;
  for (const nn::NamedParameter& each : nn::parameters(model)) {
    result.insert(result.end(), each.parameter->values().begin(), each.parameter->values().end());
  }
  return result;
}

TEST(State, WhatIsSavedIsLoadedToTheBit) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder saved = small_encoder(1), loaded = small_encoder(2);
  ASSERT_NE(values_of(saved), values_of(loaded));
  nn::save(saved, directory.file("model.safetensors"));
  const nn::LoadReport report = nn::load(loaded, directory.file("model.safetensors"));
  EXPECT_EQ(values_of(saved), values_of(loaded));
  EXPECT_TRUE(report.missing.empty());
  EXPECT_TRUE(report.unexpected.empty());
  EXPECT_EQ(directory.names(), std::vector<std::string>{"model.safetensors"}) << "a temporary file was left";
}

TEST(State, NamesArePyTorchs) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder model = small_encoder(1, 1);
  nn::save(model, directory.file("model.safetensors"));
  std::vector<std::string> names = io::SafetensorsFile(directory.file("model.safetensors")).names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names,
            (std::vector<std::string>{"layers.0.linear1.bias", "layers.0.linear1.weight", "layers.0.linear2.bias",
                                      "layers.0.linear2.weight", "layers.0.norm1.bias", "layers.0.norm1.weight",
                                      "layers.0.norm2.bias", "layers.0.norm2.weight", "layers.0.self_attn.in_proj_bias",
                                      "layers.0.self_attn.in_proj_weight", "layers.0.self_attn.out_proj.bias",
                                      "layers.0.self_attn.out_proj.weight", "norm.bias", "norm.weight"}));
}

TEST(State, ANarrowerFormatIsWidened) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder saved = small_encoder(1), loaded = small_encoder(2);
  const std::vector<float> exact = values_of(saved);
  for (const auto& [format, precision] : {std::pair(io::FloatFormat::f16, 0x1p-11), {io::FloatFormat::bf16, 0x1p-8}}) {
    nn::save(saved, directory.file("narrow.safetensors"), {.format = format});
    nn::load(loaded, directory.file("narrow.safetensors"));
    const std::vector<float> got = values_of(loaded);
    for (size_t i = 0; i < got.size(); ++i) {
      const auto wide = static_cast<double>(exact[i]);
      ASSERT_NEAR(static_cast<double>(got[i]), wide, std::abs(wide) * precision + 1e-7);
    }
  }
}

// Everything that does not fit is named, with both shapes, and nothing was changed.
TEST(State, AStrictLoadListsAllThatDoesNotFit) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("other.safetensors");
  const std::vector<float> few(96);
  const std::span<const float> all(few);
  io::write_safetensors(
      path, std::vector<io::SafetensorsEntry>{
                {"weight", {8, 12}, all}, {"extra", {3}, all.first(3)}, {"more.extra", {2, 2}, all.first(4)}});
  nn::Linear linear(8, 12);
  nn::initialise(linear, Rng(1));
  const std::vector<float> before = values_of(linear);
  expect_error([&] { nn::load(linear, path); },
               {"other.safetensors", "'weight'", "[8, 12]", "[12, 8]", "missing 'bias' [12]", "unexpected 'extra' [3]",
                "unexpected 'more.extra' [2, 2]", "strict"});
  EXPECT_EQ(values_of(linear), before);
}

TEST(State, ALoadThatIsNotStrictTakesWhatFitsByName) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder saved = small_encoder(1, 2), loaded = small_encoder(2, 3, false);
  nn::save(saved, directory.file("model.safetensors"));
  const std::vector<float> third(loaded.layers[2].linear1.weight.values().begin(),
                                 loaded.layers[2].linear1.weight.values().end());
  const nn::LoadReport report = nn::load(loaded, directory.file("model.safetensors"), {.strict = false});
  EXPECT_TRUE(std::equal(third.begin(), third.end(), loaded.layers[2].linear1.weight.values().begin()));
  EXPECT_TRUE(std::ranges::equal(saved.layers[1].linear1.weight.values(), loaded.layers[1].linear1.weight.values()));
  EXPECT_EQ(report.missing.size(), 6U);
  EXPECT_EQ(std::ranges::count(report.missing, "layers.2.self_attn.in_proj_weight"), 1);
  EXPECT_EQ(report.unexpected.size(), 2U * 6U + 1U);
  EXPECT_EQ(std::ranges::count(report.unexpected, "norm.bias"), 1);
}

TEST(State, AWrongShapeIsRefusedStrictOrNot) {
  const TemporaryDirectory directory;
  nn::Linear saved(8, 3), loaded(4, 3);
  nn::initialise(saved, Rng(1));
  nn::save(saved, directory.file("model.safetensors"));
  const std::vector<float> before = values_of(loaded);
  expect_error([&] { nn::load(loaded, directory.file("model.safetensors"), {.strict = false}); },
               {"'weight'", "[3, 8]", "[3, 4]"});
  EXPECT_EQ(values_of(loaded), before);
}

TEST(State, OfManyMismatchesTheFirstAreShown) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder saved = small_encoder(1, 1), loaded = small_encoder(2, 4);
  nn::save(saved, directory.file("model.safetensors"));
  expect_error([&] { nn::load(loaded, directory.file("model.safetensors")); },
               {"missing 'layers.1.self_attn.in_proj_weight' [24, 8]", "and 16 more"});
}

TEST(State, ABrokenFileIsRefusedAndChangesNothing) {
  const TemporaryDirectory directory;
  nn::TransformerEncoder model = small_encoder(1);
  nn::save(model, directory.file("model.safetensors"));
  const std::string bytes = bytes_of(directory.file("model.safetensors"));
  const std::vector<float> before = values_of(model);
  nn::initialise(model, Rng(2));
  const std::vector<float> other = values_of(model);
  ASSERT_NE(before, other);
  for (const size_t length : {size_t{0}, size_t{5}, size_t{100}, bytes.size() - 1}) {
    const std::string path = directory.file("cut.safetensors", std::string_view(bytes).substr(0, length));
    EXPECT_THROW(nn::load(model, path), io::FileError) << length;
    EXPECT_EQ(values_of(model), other);
  }
  std::string corrupt = bytes;
  corrupt[20] = '\0';
  EXPECT_THROW(nn::load(model, directory.file("corrupt.safetensors", corrupt)), io::FileError);
  EXPECT_THROW(nn::load(model, directory.file("none.safetensors")), io::FileError);
  EXPECT_EQ(values_of(model), other);
}

// Input and output embedding in one.
struct Tied {
  nn::Linear words{4, 6, {.bias = false}};
  nn::Linear classes{4, 2};

  void parts(auto&& visit) { visit("words", words), visit("output.weight", words.weight), visit("classes", classes); }
};

TEST(State, AParameterThatIsReachedTwiceIsSavedOnceUnderItsFirstName) {
  const TemporaryDirectory directory;
  Tied saved, loaded;
  nn::initialise(saved, Rng(1));
  nn::save(saved, directory.file("tied.safetensors"));
  EXPECT_EQ(io::SafetensorsFile(directory.file("tied.safetensors")).names().size(), 3U);
  EXPECT_TRUE(io::SafetensorsFile(directory.file("tied.safetensors")).has("words.weight"));
  EXPECT_EQ(nn::count_parameters(saved), 24 + 8 + 2);
  nn::load(loaded, directory.file("tied.safetensors"));
  EXPECT_EQ(values_of(saved), values_of(loaded));
}

}  // namespace
}  // namespace heed::test
