// The layer with its cache: token by token, the bits of the full causal forward.
#include "heed/nn/multihead_decoder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_case.h"

namespace heed::test {
namespace {

// A causal layer of 150 tokens, past a page of the cache.
LayerSizes decoder_sizes() {
  LayerSizes sizes = self_sizes();
  sizes.t_q = sizes.t_k = 150;
  sizes.d_k = 6;
  sizes.d_v = 7;
  return sizes;
}

MultiHeadDecoderOptions decoder_options(const LayerSizes& s) {
  return {.heads = s.heads, .kv_heads = s.kv_heads, .capacity = s.t_q, .sequences = s.batch};
}

// Tokens [first, first + count) of every item, in memory of their own.
Tensor tokens_of(const Tensor& x, int64_t first, int64_t count) {
  const std::vector<float> values = values_of(x.view<3>().slice(1, first, count));
  Tensor part({x.shape()[0], count, x.shape()[2]});
  std::copy(values.begin(), values.end(), part.values().begin());
  return part;
}

// All tokens in chunks of `size`; the rows of y in their places.
std::vector<float> decode(MultiHeadDecoder& decoder, const Layer& layer, int64_t size) {
  Tensor all(layer.y.shape());
  for (int64_t first = 0; first < layer.s.t_q; first += size) {
    const int64_t count = std::min(size, layer.s.t_q - first);
    const Tensor y = decoder.append(tokens_of(layer.x[0], first, count));
    for (int64_t b = 0; b < layer.s.batch; ++b) {
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t c = 0; c < layer.s.out(); ++c) all.view<3>()(b, first + t, c) = y.view<3>()(b, t, c);
      }
    }
  }
  EXPECT_EQ(decoder.length(), layer.s.t_q);
  return floats(all);
}

TEST(MultiHeadDecoder, AnyChunksHaveTheBitsOfTheFullForward) {
  on_every_isa([] {
    for (const bool complete : {true, false}) {
      LayerSizes sizes = decoder_sizes();
      sizes.w_o = sizes.biases = complete;
      Layer layer(sizes);
      layer.options.attention.mask = Mask::causal();
      layer.forward();
      MultiHeadDecoder decoder(layer.parameters(), decoder_options(sizes));
      for (const int64_t chunk : {1, 7, 40, 150}) {
        decoder.truncate(0);
        EXPECT_TRUE(same_bits(decode(decoder, layer, chunk), floats(layer.y))) << "chunks of " << chunk;
      }
    }
  });
}

TEST(MultiHeadDecoder, RotaryPositionsWindowAndScoreOptionsAreThoseOfTheFullForward) {
  Layer layer(decoder_sizes());
  const RotaryTable table({.pairing = RotaryPairing::halves, .width = 4, .positions = 150});
  const std::vector<float> slopes = alibi_slopes(layer.s.heads);
  AttentionOptions& attention = layer.options.attention;
  attention.mask = Mask::causal() & Mask::window(20, 0);
  attention.scale = 0.3F;
  attention.scores.alibi_slopes = {slopes.data(), {layer.s.heads}};
  layer.options.rotary = {&table, {}, {}};
  layer.forward();
  MultiHeadDecoderOptions options = decoder_options(layer.s);
  options.rotary = {.pairing = RotaryPairing::halves, .width = 4};
  options.attention.window_left = 20;
  options.attention.scale = 0.3F;
  options.attention.scores = attention.scores;
  for (const int64_t chunk : {1, 64}) {
    MultiHeadDecoder decoder(layer.parameters(), options);
    EXPECT_TRUE(same_bits(decode(decoder, layer, chunk), floats(layer.y))) << "chunks of " << chunk;
  }
}

TEST(MultiHeadDecoder, OwnsItsWeights) {
  Layer layer(decoder_sizes());
  layer.options.attention.mask = Mask::causal();
  layer.forward();
  MultiHeadDecoder decoder(layer.parameters(), decoder_options(layer.s));
  for (Tensor* each : {&layer.weight, &layer.bias, &layer.w_out, &layer.out_bias}) *each = Tensor(each->shape());
  MultiHeadDecoder moved = std::move(decoder);
  EXPECT_TRUE(same_bits(decode(moved, layer, 50), floats(layer.y)));
}

TEST(MultiHeadDecoder, AppendAllocatesNothingAfterTheFirstCallOfASize) {
  for (const bool w_o : {true, false}) {
    LayerSizes sizes = decoder_sizes();
    sizes.w_o = w_o;
    Layer layer(sizes);
    MultiHeadDecoderOptions options = decoder_options(sizes);
    options.rotary = {.pairing = RotaryPairing::halves, .width = 4};
    MultiHeadDecoder decoder(layer.parameters(), options);
    Tensor y({sizes.batch, 1, sizes.out()});
    const Tensor token = tokens_of(layer.x[0], 0, 1);
    const auto append = [&](int64_t count) {
      for (int64_t t = 0; t < count; ++t) decoder.append(token.view<3>(), y.view<3>());
    };
    append(1);
    const int64_t first = allocation_count();
    append(kPageKeys - 1);
    EXPECT_EQ(allocation_count(), first);
    append(150 - kPageKeys);
    decoder.truncate(0);
    const int64_t again = allocation_count();
    append(150);  // into a second page, which the list of pages has room for by now
    EXPECT_EQ(allocation_count(), again);
  }
}

TEST(MultiHeadDecoder, TruncatedTokensAreForgotten) {
  Layer layer(decoder_sizes());
  MultiHeadDecoder decoder(layer.parameters(), decoder_options(layer.s));
  decoder.append(tokens_of(layer.x[0], 0, 10));
  const Tensor expected = decoder.append(tokens_of(layer.x[0], 10, 2));
  decoder.truncate(10);
  decoder.append(tokens_of(layer.x[0], 50, 5));
  decoder.truncate(10);
  EXPECT_TRUE(same_bits(floats(decoder.append(tokens_of(layer.x[0], 10, 2))), floats(expected)));
}

TEST(MultiHeadDecoder, WhatDoesNotFitIsRefusedAndTheSequencesStay) {
  Layer layer(decoder_sizes());
  MultiHeadDecoderOptions options = decoder_options(layer.s);
  options.capacity = 12;
  MultiHeadDecoder decoder(layer.parameters(), options);
  decoder.append(tokens_of(layer.x[0], 0, 10));
  const std::string name = "MultiHeadDecoder::append";
  const auto refused = [&](const Tensor& x, const std::vector<std::string>& parts) {
    expect_error(
        name, [&] { decoder.append(x); }, parts);
    EXPECT_EQ(decoder.length(), 10);
  };
  refused(tokens_of(layer.x[0], 10, 3), {"have 10 tokens and 3 come, but the capacity is 12"});
  refused(Tensor({2, 6}), {"x has shape [2, 6]", "[N, T, C]"});
  refused(Tensor({1, 1, 6}), {"x has shape [1, 1, 6], expected [2, 1, 6]"});
  refused(Tensor({2, 1, 5}), {"x has shape [2, 1, 5], expected [2, 1, 6]"});
  Tensor x = tokens_of(layer.x[0], 10, 2), narrow({2, 2, 4}), wide({2, 4, 6});
  expect_error(name, [&] { decoder.append(x.view<3>(), narrow.view<3>()); }, {"y has shape [2, 2, 4]"});
  expect_error(name, [&] { decoder.append({}, narrow.view<3>()); }, {"x is a null view"});
  expect_error(name, [&] { decoder.append(wide.view<3>().slice(1, 0, 2), narrow.view<3>()); }, {"evenly spaced"});
  EXPECT_EQ(decoder.append(x).shape(), (std::vector<int64_t>{2, 2, 5}));
}

// The score options are decode's to check, after the keys were appended.
TEST(MultiHeadDecoder, ACallThatDecodeRefusesLeavesTheSequencesAsTheyWere) {
  Layer layer(decoder_sizes());
  MultiHeadDecoderOptions options = decoder_options(layer.s);
  const std::vector<float> sinks(3);
  options.attention.scores.sinks = {sinks.data(), {3}};
  MultiHeadDecoder decoder(layer.parameters(), options);
  for (int i = 0; i < 200; ++i) {  // more often than the cache has pages
    expect_error("attention_decode", [&] { decoder.append(tokens_of(layer.x[0], 0, 1)); }, {"3 sinks"});
  }
  EXPECT_EQ(decoder.length(), 0);
}

TEST(MultiHeadDecoder, OptionsThatDoNotFitAreRefused) {
  Layer layer(decoder_sizes());
  const auto refused = [&](const std::string& function, const MultiHeadDecoderOptions& options,
                           const std::string& rule) {
    expect_error(function, [&] { MultiHeadDecoder(layer.parameters(), options); }, {rule});
  };
  MultiHeadDecoderOptions options = decoder_options(layer.s);
  options.heads = 0;
  refused("multihead_forward", options, "options.heads is 0");
  options = decoder_options(layer.s);
  options.kv_heads = 4;
  refused("multihead_forward", options, "W_K");
  options = decoder_options(layer.s);
  options.capacity = 0;
  refused("MultiHeadDecoder", options, "options.capacity is 0");
  options = decoder_options(layer.s);
  options.sequences = 0;
  refused("MultiHeadDecoder", options, "options.sequences is 0");
  options = decoder_options(layer.s);
  options.rotary.width = 8;
  refused("MultiHeadDecoder", options, "rotates 8 elements of 6");
  options = decoder_options(layer.s);
  options.attention.scores.bias = {layer.x[0].values().data(), {1, 1, 1, 1}};
  refused("MultiHeadDecoder", options, "dense bias");
}

}  // namespace
}  // namespace heed::test
