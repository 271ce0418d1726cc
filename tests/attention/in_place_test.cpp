// Results that share memory with inputs: refused, but for an `out` that is q itself, which has the usual bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_case.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

AttentionSizes square_sizes() {
  return {.batch = 2, .t_q = 70, .t_k = 70, .heads = 4, .kv_heads = 2, .d_k = 9, .d_v = 9};
}

TEST(InPlace, OutThatSharesMemoryWithKeysOrValuesIsRefused) {
  const AttentionSizes sizes{.batch = 2, .t_q = 6, .t_k = 6, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 5};
  for (const Layout layout : {Layout::bthd, Layout::bhtd, Layout::fused_qkv}) {
    AttentionCase c(sizes, layout, 1);
    const std::vector<float> k = values_of(c.k), v = values_of(c.v);
    const auto refused = [&](View<float, 4> out, const char* name) {
      expect_error("attention_forward", [&] { attention_forward(c.inputs(), {}, out); },
                   {"out of shape [2, 6, 2, 5] shares memory with " + std::string(name), "memory of its own"});
      EXPECT_TRUE(same_bits(values_of(c.k), k) && same_bits(values_of(c.v), v));
    };
    refused(c.k, "k");
    refused(c.v, "v");
  }
}

TEST(InPlace, OutThatSharesOneElementWithValuesIsRefused) {
  const std::array<int64_t, 4> shape{2, 6, 2, 5};
  const AttentionSizes sizes{.batch = 2, .t_q = 6, .t_k = 6, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 5};
  const AttentionCase c(sizes, Layout::bthd, 1);
  // Both in one array, so that what lies after v is out's and not, by chance, k.
  Tensor values_then_out({239});
  const View<float, 1> all = values_then_out.view<1>();
  const View<const float, 4> v(&all(0), shape);
  expect_error("attention_forward",
               [&] {
                 attention_forward({c.q, c.k, v}, {}, {&all(119), shape});
               },
               {"shares memory with v"});
}

TEST(InPlace, OutThatIsAnotherPartOfQIsRefused) {
  AttentionCase c({.batch = 1, .t_q = 6, .t_k = 6, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 5}, Layout::bthd, 1);
  Tensor longer({1, 7, 2, 5});
  const View<float, 4> all = longer.view<4>();
  expect_error("attention_forward",
               [&] {
                 attention_forward({all.slice(1, 0, 6), c.k, c.v}, {}, all.slice(1, 1, 6));
               },
               {"shares memory with q"});
}

TEST(InPlace, OutMayBeQItself) {
  on_every_isa([] {
    for (const Layout layout : {Layout::bthd, Layout::bhtd, Layout::fused_qkv}) {
      for (const int count : {1, 3}) {
        const Threads use(count);
        AttentionCase c(square_sizes(), layout, 1);
        c.options.mask = Mask::causal();
        c.forward();
        attention_forward(c.inputs(), c.options, c.q);
        EXPECT_TRUE(same_bits(values_of(c.q), values_of(c.out)));
      }
    }
  });
}

TEST(InPlace, OutOfDecodeMayBeQItself) {
  on_every_isa([] {
    for (const int64_t queries : {1, 2, 33}) {
      for (const int count : {1, 3}) {
        const Threads use(count);
        AttentionCase c(square_sizes(), Layout::bthd, 1);
        KvCache cache(cache_options(c.sizes, 1000));
        const std::vector<int64_t> sequences = add_sequences(cache, 2);
        for (int64_t b = 0; b < 2; ++b) cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, 70));
        const View<float, 4> q = c.q.slice(1, 70 - queries, queries), out = c.out.slice(1, 0, queries);
        attention_decode(cache, sequences, q, {}, out);
        attention_decode(cache, sequences, q, {}, q);
        EXPECT_TRUE(same_bits(values_of(q), values_of(out))) << queries << " queries";
      }
    }
  });
}

TEST(InPlace, OutOfDecodeThatLiesInTheCacheIsRefused) {
  AttentionCase c(square_sizes(), Layout::bthd, 1);
  KvCacheOptions options = cache_options(c.sizes, 256);
  AlignedArray<std::byte> memory = allocate_aligned<std::byte>(static_cast<size_t>(KvCache::bytes(options)));
  options.memory = memory.get();
  KvCache cache(options);
  const std::vector<int64_t> sequences = add_sequences(cache, 2);
  for (int64_t b = 0; b < 2; ++b) cache.append(chunk_of(c, b, sequences[static_cast<size_t>(b)], 0, 5));
  const View<const float, 4> q = c.q.slice(1, 0, 1);
  const View<float, 4> out(reinterpret_cast<float*>(memory.get()), {2, 1, 4, 9});
  expect_error("attention_decode", [&] { attention_decode(cache, sequences, q, {}, out); },
               {"out of shape [2, 1, 4, 9] shares memory with the cache"});
  // Another part of q.
  expect_error("attention_decode",
               [&] { attention_decode(cache, sequences, c.q.slice(1, 0, 2), {}, c.q.slice(1, 1, 2)); },
               {"shares memory with q"});
}

// A gradient is written while other blocks still read what came in.
TEST(InPlace, GradientsThatShareMemoryWithWhatBackwardReadsAreRefused) {
  const AttentionSizes sizes{.batch = 2, .t_q = 6, .t_k = 6, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 5};
  for (const Layout layout : {Layout::bthd, Layout::bhtd, Layout::fused_qkv}) {
    AttentionCase c(sizes, layout, 1);
    c.forward();
    Tensor made[3] = {Tensor({2, 6, 2, 5}), Tensor({2, 6, 2, 5}), Tensor({2, 6, 2, 5})}, d_out({2, 6, 2, 5});
    const std::pair<const char*, View<float, 4>> read[] = {
        {"q", c.q}, {"k", c.k}, {"v", c.v}, {"out", c.out}, {"d_out", d_out.view<4>()}};
    const char* const names[] = {"d_q", "d_k", "d_v"};
    const auto refused = [&](size_t which, View<float, 4> gradient, const char* name) {
      View<float, 4> d[3] = {made[0].view<4>(), made[1].view<4>(), made[2].view<4>()};
      d[which] = gradient;
      const std::vector<float> before = values_of(gradient);
      expect_error("attention_backward",
                   [&] {
                     attention_backward(c.inputs(), c.options, {c.out, c.rows, d_out.view<4>()}, {d[0], d[1], d[2]});
                   },
                   {std::string(names[which]) + " of shape [2, 6, 2, 5] shares memory with " + name + ","});
      EXPECT_TRUE(same_bits(values_of(gradient), before));
    };
    for (size_t which = 0; which < 3; ++which) {
      for (const auto& [name, view] : read) refused(which, view, name);
    }
    refused(1, made[0].view<4>(), "d_q");
    refused(2, made[0].view<4>(), "d_q");
    refused(2, made[1].view<4>(), "d_k");
  }
}

TEST(InPlace, AGradientOfTheBiasThatIsTheBiasIsRefused) {
  AttentionCase c({.batch = 1, .t_q = 6, .t_k = 6, .heads = 2, .kv_heads = 2, .d_k = 5, .d_v = 5}, Layout::bthd, 1);
  Tensor bias({1, 2, 6, 6}), d_q({1, 6, 2, 5}), d_k({1, 6, 2, 5}), d_v({1, 6, 2, 5}), d_out({1, 6, 2, 5});
  c.options.scores.bias = bias.view<4>();
  c.forward();
  AttentionGradients gradients{d_q.view<4>(), d_k.view<4>(), d_v.view<4>()};
  gradients.scores.d_bias = bias.view<4>();
  expect_error("attention_backward",
               [&] {
                 attention_backward(c.inputs(), c.options, {c.out, c.rows, d_out.view<4>()}, gradients);
               },
               {"d_bias of shape [1, 2, 6, 6] shares memory with bias"});
}

// As the gradient of a fused projection has them.
TEST(InPlace, GradientsMayLieSideBySideInTheRowsOfOneArray) {
  on_every_isa([] {
    for (const AttentionSizes& sizes :
         {square_sizes(),
          AttentionSizes{.batch = 3, .t_q = 1, .t_k = 1, .heads = 4, .kv_heads = 2, .d_k = 9, .d_v = 9}}) {
      AttentionCase c(sizes, Layout::fused_qkv, 1);
      c.forward();
      const AttentionCase d_out(sizes, Layout::bthd, 2);
      const AttentionOutputs outputs{c.out, c.rows, View<const float, 4>(d_out.q)};
      Tensor together({sizes.batch, sizes.t_q, 8, 9}), q({sizes.batch, sizes.t_q, 4, 9});
      Tensor k({sizes.batch, sizes.t_q, 2, 9}), v({sizes.batch, sizes.t_q, 2, 9});
      const View<float, 4> all = together.view<4>();
      const View<float, 4> d_q = all.slice(2, 0, 4), d_k = all.slice(2, 4, 2), d_v = all.slice(2, 6, 2);
      attention_backward(c.inputs(), c.options, outputs, {d_q, d_k, d_v});
      attention_backward(c.inputs(), c.options, outputs, {q.view<4>(), k.view<4>(), v.view<4>()});
      EXPECT_TRUE(same_bits(values_of(d_q), floats(q)));
      EXPECT_TRUE(same_bits(values_of(d_k), floats(k)));
      EXPECT_TRUE(same_bits(values_of(d_v), floats(v)));
    }
  });
}

TEST(InPlace, ALayersResultThatSharesMemoryWithItsInputsIsRefused) {
  LayerSizes sizes = self_sizes();
  sizes.c_out = sizes.c_q;
  Layer layer(sizes);
  const std::vector<float> x = floats(layer.x[0]);
  expect_error(
      "multihead_forward",
      [&] { multihead_forward(layer.inputs(), layer.parameters(), layer.options, layer.state, layer.x[0].view<3>()); },
      {"y of shape [2, 5, 6] shares memory with query"});
  EXPECT_TRUE(same_bits(floats(layer.x[0]), x));
  LayerSizes cross;
  cross.t_k = cross.t_q;
  cross.c_k = cross.c_v = cross.c_out;
  Layer other(cross);
  for (const int i : {1, 2}) {
    expect_error("multihead_forward",
                 [&] {
                   multihead_forward(other.inputs(), other.parameters(), other.options, other.state,
                                     other.x[i].view<3>());
                 },
                 {i == 1 ? "shares memory with key" : "shares memory with value"});
  }
}

}  // namespace
}  // namespace heed::test
