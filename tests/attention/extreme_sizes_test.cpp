// Sizes whose products overflow: refused by every function, with its name and the sizes, before anything is touched.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/attention/decode.h"
#include "heed/attention/insight.h"
#include "heed/attention/multihead.h"
#include "tests/support/expect_error.h"

namespace heed::test {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t k30 = int64_t{1} << 30;
constexpr int64_t k40 = int64_t{1} << 40;
constexpr int64_t k62 = int64_t{1} << 62;

// One value, read again and again.
float any = 7.0F;

template <int N>
View<float, N> repeated(const Shape<N>& shape) {
  Shape<N> strides{};
  strides[N - 1] = 1;
  return {&any, shape, strides};
}

// Sizes of a call, and what its refusal says of them.
struct Sizes {
  int64_t batch = 1, t_q = 1, t_k = 1, heads = 1, kv_heads = 1, d_k = 1, d_v = 1;
  std::string text{};

  AttentionInputs inputs() const {
    return {repeated<4>({batch, t_q, heads, d_k}), repeated<4>({batch, t_k, kv_heads, d_k}),
            repeated<4>({batch, t_k, kv_heads, d_v})};
  }
  View<float, 4> out() const { return repeated<4>({batch, t_q, heads, d_v}); }
  RowStates<float> rows() const { return {repeated<3>({batch, heads, t_q}), repeated<3>({batch, heads, t_q})}; }
};

std::vector<Sizes> extreme_sizes() {
  return {{.batch = k40, .t_q = k30, .text = "q has shape [1099511627776, 1073741824, 1, 1]"},
          {.batch = k40, .t_k = k30, .text = "k has shape [1099511627776, 1073741824, 1, 1]"},
          {.d_v = kMost, .text = "v has shape [1, 1, 1, 9223372036854775807]"},
          {.t_q = 0, .t_k = 0, .d_k = kMost, .text = "q has shape [1, 0, 1, 9223372036854775807]"},
          {.batch = k62, .t_q = 0, .t_k = 0, .text = "q has shape [4611686018427387904, 0, 1, 1]"},
          {.batch = 0, .heads = k62, .kv_heads = k62, .text = "q has shape [0, 1, 4611686018427387904, 1]"},
          {.t_k = k40, .text = "lengths above 2^30: Tq = 1, Tk = 1099511627776"},
          {.d_v = k40, .text = "widths above 2^30"},
          {.t_k = k30, .heads = k30, .text = "[B, H, Tk] has shape [1, 1073741824, 1073741824]"},
          {.batch = -1, .text = "q has a negative size: [-1, 1, 1, 1]"},
          {.t_k = -5, .text = "k has a negative size: [1, -5, 1, 1]"}};
}

class AttentionExtremeSizes : public ::testing::Test {
 protected:
  void SetUp() override { any = 7.0F; }
  void TearDown() override { EXPECT_EQ(any, 7.0F) << "something was written"; }
};

TEST_F(AttentionExtremeSizes, AreRefusedByForwardBackwardAndPlan) {
  for (const Sizes& s : extreme_sizes()) {
    const AttentionInputs in = s.inputs();
    expect_error("attention_forward", [&] { attention_forward(in, {}, s.out(), s.rows()); }, {s.text});
    const AttentionOutputs outputs{s.out(), s.rows(), s.out()};
    const AttentionGradients gradients{repeated<4>(in.q.shape()), repeated<4>(in.k.shape()), repeated<4>(in.v.shape())};
    expect_error("attention_backward", [&] { attention_backward(in, {}, outputs, gradients); }, {s.text});
    expect_error("attention_plan", [&] { attention_plan(in, {}); }, {s.text});
  }
}

TEST_F(AttentionExtremeSizes, AreRefusedByInsight) {
  for (const Sizes& s : extreme_sizes()) {
    const AttentionInputs in = s.inputs();
    for (const AttentionStep step : {AttentionStep::scores, AttentionStep::weights, AttentionStep::heads}) {
      expect_error("attention_tile",
                   [&] {
                     attention_tile(in, {}, s.rows(), step, {}, repeated<2>({1, 1}));
                   },
                   {s.text});
    }
    expect_error("attention_weights",
                 [&] {
                   attention_weights(in, {}, s.rows(), repeated<4>({s.batch, s.heads, s.t_q, s.t_k}));
                 },
                 {s.text});
    RowInsight out;
    out.largest = repeated<3>({s.batch, s.heads, 1});
    expect_error("attention_row_insight", [&] { attention_row_insight(in, {}, s.rows(), 0, out); }, {s.text});
    expect_error("attention_mass_received",
                 [&] {
                   attention_mass_received(in, {}, s.rows(), repeated<3>({s.batch, s.heads, s.t_k}));
                 },
                 {s.text});
  }
}

TEST_F(AttentionExtremeSizes, OfInsightResultsAreRefused) {
  const Sizes s{.t_q = 2, .t_k = 2};
  expect_error("attention_tile",
               [&] {
                 attention_tile(s.inputs(), {}, s.rows(), AttentionStep::scores, {}, {&any, {2, 2}, {kMost, 1}});
               },
               {"out of shape [2, 2] has strides [9223372036854775807, 1]"});
  RowInsight out;
  out.top_weights = repeated<4>({1, 1, 1, k40});
  expect_error("attention_row_insight", [&] { attention_row_insight(s.inputs(), {}, s.rows(), 0, out); },
               {"top_weights has shape [1, 1, 1, 1099511627776]"});
}

TEST_F(AttentionExtremeSizes, OfRowStatesAndStridesAreRefused) {
  const Sizes s{.t_q = 2, .t_k = 2};
  AttentionInputs in = s.inputs();
  in.k = {&any, {1, 2, 1, 1}, {0, kMost, 0, 1}};
  expect_error("attention_forward", [&] { attention_forward(in, {}, s.out()); },
               {"k of shape [1, 2, 1, 1] has strides [0, 9223372036854775807, 0, 1]"});
  const View<float, 3> far(&any, {1, 1, 2}, {0, 0, kMost});
  expect_error("attention_forward",
               [&] {
                 attention_forward(s.inputs(), {}, s.out(), {far, far});
               },
               {"shift of shape"});
  for (const Shape<3>& shape :
       {Shape<3>{k40, k30, 1}, Shape<3>{k62, 1, 0}, Shape<3>{0, kMost, 2}, Shape<3>{1, -1, 1}}) {
    const RowStates<float> rows{repeated<3>(shape), repeated<3>(shape)};
    expect_error("log_sum_exp", [&] { log_sum_exp(rows, repeated<3>(shape)); }, {"result has", to_text(shape)});
  }
}

TEST_F(AttentionExtremeSizes, OfMasksAreRefused) {
  for (const MaskSizes& sizes : {MaskSizes{k62, 1, 0, 0}, MaskSizes{k40, 1, k30, 1}, MaskSizes{1, kMost, 1, 1},
                                 MaskSizes{1, 1, kMost, kMost}, MaskSizes{1, k30, 1, k30}, MaskSizes{-1, 1, 1, 1}}) {
    expect_error("f", [&] { Mask::causal(QueryPositions::top_left()).check_fits("f", sizes); }, {""});
    expect_error("Mask::visible_pairs", [&] { Mask().visible_pairs(sizes); }, {""});
  }
  const bool keep = true;
  const Mask far = Mask::keep(View<const bool, 2>(&keep, {2, 2}, {kMost, 1}));
  expect_error("attention_forward",
               [&] {
                 const Sizes s{.t_q = 2, .t_k = 2};
                 AttentionOptions options;
                 options.mask = far;
                 attention_forward(s.inputs(), options, s.out());
               },
               {"dense mask of shape [1, 1, 2, 2] has strides"});
}

TEST_F(AttentionExtremeSizes, MorePairsOrFlopsThanCountsAreRefused) {
  expect_error("Mask::visible_pairs", [] { Mask().visible_pairs({2, 1 << 17, k30, k30}); }, {"1073741824 queries"});
  const Sizes s{.t_q = 1 << 24, .t_k = k30, .d_k = 1 << 18};
  expect_error("attention_plan", [&] { attention_plan(s.inputs(), {}); }, {"FLOPs", "widths 262144 and 1"});
}

TEST_F(AttentionExtremeSizes, OfScoreOptionsAreRefused) {
  const Sizes s{.t_q = 2, .t_k = 2, .heads = 2};
  const auto refused = [&](const ScoreOptions& scores, const std::string& text) {
    AttentionOptions options;
    options.scores = scores;
    expect_error("attention_forward", [&] { attention_forward(s.inputs(), options, s.out()); }, {text});
  };
  ScoreOptions scores;
  scores.relative.table = repeated<2>({k62, 2});
  refused(scores, "relative table has shape [4611686018427387904, 2]");
  scores.relative.table = repeated<2>({k40, 2});
  refused(scores, "relative table has shape [1099511627776, 2]");
  scores = {};
  scores.bias = {&any, {1, 1, 2, 2}, {0, 0, kMost, 1}};
  refused(scores, "bias of shape [1, 1, 2, 2] has strides");
  scores = {};
  scores.alibi_slopes = {&any, {2}, {kMost}};
  refused(scores, "alibi_slopes of shape [2]");
  scores = {};
  scores.sinks = {&any, {2}, {kMost}};
  refused(scores, "sinks of shape [2]");
  expect_error("alibi_slopes", [] { alibi_slopes(k62); }, {"4611686018427387904 heads"});
}

TEST_F(AttentionExtremeSizes, OfPositionGradientsAreRefused) {
  const Sizes s{.t_q = 1 << 14, .t_k = 1 << 14, .heads = 1 << 14};
  const AttentionInputs in = s.inputs();
  AttentionOptions options;
  options.scores.relative = {repeated<2>({1 << 24, 1 << 14}), 1 << 25, true};
  AttentionGradients gradients{repeated<4>(in.q.shape()), repeated<4>(in.k.shape()), repeated<4>(in.v.shape())};
  gradients.scores.d_relative_table = repeated<2>({1 << 24, 1 << 14});
  expect_error("attention_backward",
               [&] {
                 attention_backward(in, options, {s.out(), s.rows(), s.out()}, gradients);
               },
               {"[1, 16384, 16384, 16777217]"});
}

TEST_F(AttentionExtremeSizes, OfCachesAreRefused) {
  const std::vector<KvCacheOptions> all{{.capacity = kMost, .d_k = 1, .d_v = 1},
                                        {.capacity = 1, .d_k = 1, .d_v = kMost},
                                        {.capacity = 1, .d_k = kMost, .d_v = 1},
                                        {.capacity = 1, .d_k = kMost, .d_v = kMost},
                                        {.capacity = 1, .kv_heads = kMost, .d_k = 1, .d_v = 1},
                                        {.capacity = 1, .sequences = kMost, .d_k = 1, .d_v = 1},
                                        {.capacity = k30, .kv_heads = k30, .d_k = k30, .d_v = k30},
                                        {.capacity = 1, .d_k = -1, .d_v = 1}};
  for (const KvCacheOptions& options : all) {
    expect_error("KvCache", [&] { KvCache cache(options); }, {""});
    expect_error("KvCache::bytes", [&] { KvCache::bytes(options); }, {""});
  }
}

TEST_F(AttentionExtremeSizes, OfChunksAndDecodeAreRefused) {
  KvCache cache({.capacity = 256, .d_k = 2, .d_v = 2});
  const int64_t sequence = cache.add();
  for (const int64_t keys : {k62, k40 * 256, k40, int64_t{-1}}) {
    const View<const float, 3> rows = repeated<3>({keys, 1, 2});
    expect_error("KvCache::append", [&] { cache.append({sequence, 0, rows, rows}); }, {std::to_string(keys)});
  }
  const View<const float, 3> far(&any, {2, 1, 2}, {kMost, 0, 1});
  expect_error("KvCache::append", [&] { cache.append({sequence, 0, far, far}); }, {"k of shape [2, 1, 2] has strides"});
  EXPECT_EQ(cache.length(sequence), 0);

  float two[2] = {1.0F, 2.0F};
  cache.append({sequence, 0, {two, {1, 1, 2}}, {two, {1, 1, 2}}});
  DecodeOptions options;
  options.causal = false;
  for (const Shape<4>& shape :
       {Shape<4>{1, k62, 1, 2}, Shape<4>{1, 0, k62, 2}, Shape<4>{1, k40, 1, 2}, Shape<4>{1, -1, 1, 2}}) {
    expect_error("attention_decode",
                 [&] {
                   attention_decode(cache, {&sequence, 1}, repeated<4>(shape), options, repeated<4>(shape));
                 },
                 {std::to_string(shape[1])});
  }
}

// A layer whose weights are [outputs, inputs] of the given sizes.
struct LayerOf {
  int64_t batch, tokens, width, q_rows, v_rows, heads, kv_heads;

  MultiHeadParameters<const float> parameters() const {
    MultiHeadParameters<const float> p;
    p.q = repeated<2>({q_rows, width});
    p.k = repeated<2>({heads == 0 ? 0 : q_rows / heads * kv_heads, width});
    p.v = repeated<2>({v_rows, width});
    return p;
  }
  MultiHeadOptions options() const {
    MultiHeadOptions result;
    result.heads = heads;
    result.kv_heads = kv_heads;
    return result;
  }
};

TEST_F(AttentionExtremeSizes, OfLayersAreRefused) {
  const std::vector<LayerOf> all{{k40, k30, 1, 1, 1, 1, 1},   {k62, 0, 1, 1, 1, 1, 1},
                                 {1, 1, kMost, 2, 2, 1, 1},   {1, 0, 1, kMost, 1, 1, 1},
                                 {1, 1, 1, k40, k40, k40, 1}, {1, 1, 1, 1, 1, kMost, 1},
                                 {k30, 1, 1, k30, 1, 1, 1},   {-1, 1, 1, 1, 1, 1, 1},
                                 {1, 1, -1, 1, 1, 1, 1},      {k30, 1 << 10, 1, 1024, 1, 1, 1}};
  for (const LayerOf& layer : all) {
    const View<float, 3> x = repeated<3>({layer.batch, layer.tokens, layer.width});
    const MultiHeadInputs in = MultiHeadInputs::self(x);
    const View<float, 3> y = repeated<3>({layer.batch, layer.tokens, 1});
    MultiHeadState state;
    expect_error("multihead_forward", [&] { multihead_forward(in, layer.parameters(), layer.options(), state, y); },
                 {""});
    expect_error("multihead_backward",
                 [&] { multihead_backward(in, layer.parameters(), layer.options(), state, y, {}); }, {""});
  }
}

TEST_F(AttentionExtremeSizes, OfPackedLayersAreRefused) {
  MultiHeadParameters<const float> p;
  p.q = repeated<2>({k40, k30});
  expect_error("PackedMatrix", [&] { PackedMultiHead packed(p); }, {"[1073741824, 1099511627776]"});
  p.q = p.k = p.v = repeated<2>({1, 1});
  p.q_bias = repeated<1>({kMost});
  expect_error("PackedMultiHead", [&] { PackedMultiHead packed(p); }, {"[9223372036854775807]"});
  p.q_bias = {};
  const PackedMultiHead packed(p);
  MultiHeadState state;
  const View<float, 3> x = repeated<3>({k62, 0, 1});
  expect_error("multihead_forward",
               [&] { multihead_forward(MultiHeadInputs::self(x), packed, {.heads = 1}, state, x); },
               {"query has shape [4611686018427387904, 0, 1]"});
}

// Nothing to do, and many heads or items to do it for.
TEST_F(AttentionExtremeSizes, ManyEmptyHeadsAreDoneAtOnce) {
  for (const int64_t kv_heads : {int64_t{1}, k40}) {
    const View<float, 4> q = repeated<4>({1, 0, k40, 4});
    const View<float, 4> k = repeated<4>({1, 0, kv_heads, 4});
    const RowStates<float> rows{repeated<3>({1, k40, 0}), repeated<3>({1, k40, 0})};
    attention_backward({q, k, k}, {}, {q, rows, q}, {q, k, k});
  }
}

TEST_F(AttentionExtremeSizes, ManyEmptyItemsAreDoneAtOnce) {
  const Sizes s{.batch = k40, .t_q = 0, .t_k = 0};
  const AttentionInputs in = s.inputs();
  attention_forward(in, {}, s.out(), s.rows());
  attention_backward(in, {}, {s.out(), s.rows(), s.out()},
                     {repeated<4>(in.q.shape()), repeated<4>(in.k.shape()), repeated<4>(in.v.shape())});
  EXPECT_EQ(attention_plan(in, {}).visible_pairs, 0);
  attention_weights(in, {}, s.rows(), repeated<4>({k40, 1, 0, 0}));
  attention_mass_received(in, {}, s.rows(), repeated<3>({k40, 1, 0}));
  log_sum_exp(s.rows(), repeated<3>({k40, 1, 0}));
}

}  // namespace
}  // namespace heed::test
