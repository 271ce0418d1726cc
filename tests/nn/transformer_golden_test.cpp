// Encoder and decoder layers, their stacks and Transformer beside PyTorch's: outputs and all gradients within 1e-5 of
// the largest value.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "heed/nn/transformer.h"
#include "tests/support/module_golden.h"

namespace heed::test {
namespace {

// The arguments of a layer are at `path`.
nn::TransformerOptions options_of(const NnGolden& golden, const std::string& path) {
  nn::TransformerOptions result;
  result.width = golden.option<int64_t>(path + "d_model");
  result.heads = golden.option<int64_t>(path + "nhead");
  result.feed_forward = golden.option<int64_t>(path + "dim_feedforward");
  result.dropout = 0.0F;
  const auto activation = golden.option<std::string>(path + "activation", "relu");
  result.activation = activation == "gelu" ? Activation::gelu : Activation::relu;
  result.eps = static_cast<float>(golden.option(path + "layer_norm_eps", 1e-5));
  result.norm_first = golden.option(path + "norm_first", false);
  result.bias = golden.option(path + "bias", true);
  return result;
}

nn::TransformerOptions stack_options(const NnGolden& golden) {
  nn::TransformerOptions result = options_of(golden, "arguments/layer/");
  result.layers = golden.option<int64_t>("arguments/num_layers");
  result.final_norm = golden.option<bool>("arguments/norm");
  return result;
}

Mask source_mask(const NnGolden& golden) {
  return golden_mask(golden, std::array<std::string, 3>{"mask", "src_mask", "src_key_padding_mask"});
}
Mask target_mask(const NnGolden& golden) {
  return golden_mask(golden, std::array<std::string, 2>{"tgt_mask", "tgt_key_padding_mask"});
}
Mask memory_mask(const NnGolden& golden) {
  return golden_mask(golden, std::array<std::string, 1>{"memory_key_padding_mask"});
}

TEST(TransformerGolden, EncoderLayerIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("encoder_layer")) {
    nn::TransformerEncoderLayer layer(options_of(golden, "arguments/"));
    expect_golden(golden, nn::parameters(layer), [&](GoldenInputs& in) { return layer(in["x"], source_mask(golden)); });
  }
}

TEST(TransformerGolden, DecoderLayerIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("decoder_layer")) {
    nn::TransformerDecoderLayer layer(options_of(golden, "arguments/"));
    expect_golden(golden, nn::parameters(layer), [&](GoldenInputs& in) {
      return layer(in["x"], in["memory"], target_mask(golden), memory_mask(golden));
    });
  }
}

TEST(TransformerGolden, EncoderIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("encoder")) {
    nn::TransformerEncoder encoder(stack_options(golden));
    expect_golden(golden, nn::parameters(encoder),
                  [&](GoldenInputs& in) { return encoder(in["x"], source_mask(golden)); });
  }
}

TEST(TransformerGolden, DecoderIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("decoder")) {
    nn::TransformerDecoder decoder(stack_options(golden));
    expect_golden(golden, nn::parameters(decoder), [&](GoldenInputs& in) {
      return decoder(in["x"], in["memory"], target_mask(golden), memory_mask(golden));
    });
  }
}

TEST(TransformerGolden, TransformerIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("transformer")) {
    nn::TransformerOptions options = options_of(golden, "arguments/");
    options.layers = golden.option<int64_t>("arguments/num_encoder_layers");
    options.decoder_layers = golden.option<int64_t>("arguments/num_decoder_layers");
    nn::Transformer transformer(options);
    const nn::TransformerMasks masks{source_mask(golden), target_mask(golden), memory_mask(golden)};
    expect_golden(golden, nn::parameters(transformer),
                  [&](GoldenInputs& in) { return transformer(in["src"], in["tgt"], masks); });
  }
}

}  // namespace
}  // namespace heed::test
