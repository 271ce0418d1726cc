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
