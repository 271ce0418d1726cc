// A trace holds the steps that the fast kernels took, and taking it changes nothing.
#include "heed/attention/trace_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "heed/attention/multihead.h"
#include "heed/core/rng.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"

namespace heed {
namespace {

Tensor drawn(std::vector<int64_t> shape, uint64_t seed) {
  Tensor made(std::move(shape));
  Rng(seed).fill_normal(made.values(), 0.5F);
  return made;
}

// A layer of 4 query heads on 2 key/value heads, widths 8 and 6, cross attention of 7 queries to 9 keys.
struct LayerCase {
  Tensor x = drawn({2, 7, 10}, 1), context = drawn({2, 9, 5}, 2);
  Tensor w_q = drawn({32, 10}, 3), w_k = drawn({16, 5}, 4), w_v = drawn({12, 5}, 5), w_o = drawn({11, 24}, 6);
  MultiHeadOptions options;
  MultiHeadState state;
  Tensor y{std::vector<int64_t>{2, 7, 11}};

  LayerCase() {
    options.heads = 4;
    options.kv_heads = 2;
    options.attention.mask = Mask::causal(QueryPositions::bottom_right());
  }
  MultiHeadInputs inputs() const { return MultiHeadInputs::cross(x.view<3>(), context.view<3>()); }
  MultiHeadParameters<const float> parameters() const {
    return {w_q.view<2>(), w_k.view<2>(), w_v.view<2>(), w_o.view<2>(), {}, {}, {}, {}};
  }
  void forward() { multihead_forward(inputs(), parameters(), options, state, y.view<3>()); }
};

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.values().data(), b.values().data(), a.values().size_bytes()) == 0;
}

TEST(TraceSteps, AreTheLayersStepsInTheirOrder) {
  LayerCase layer;
  Trace trace;
  layer.options.trace = &trace;
  layer.forward();
  std::vector<std::string> names;
  for (const Recording& each : trace.recordings()) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "context", "q", "k", "v", "scores", "scaled", "masked", "weights",
                                             "heads", "concat", "out"}));
  EXPECT_EQ(trace.find("q")->whole, (std::vector<int64_t>{2, 7, 4, 8}));
  EXPECT_EQ(trace.find("v")->whole, (std::vector<int64_t>{2, 9, 2, 6}));
  EXPECT_EQ(trace.find("weights")->whole, (std::vector<int64_t>{2, 4, 7, 9}));
  EXPECT_TRUE(same_bits(trace.find("out")->values, layer.y));
}

TEST(TraceSteps, OfSeveralLayersStandUnderTheirScopes) {
  LayerCase first, second;
  second.options.attention.mask = {};
  Trace trace({{"masked", "weights"}, {}, {}});
  {
    const TraceScope scope(&trace, "layers.0.self");
    first.options.trace = &trace;
    first.forward();
    const Tensor d_y = drawn({2, 7, 11}, 9);
    multihead_backward(first.inputs(), first.parameters(), first.options, first.state, d_y.view<3>(), {});
  }
  const TraceScope scope(&trace, "layers.1.self");
  second.options.trace = &trace;
  second.forward();
  std::vector<std::string> names;
  for (const Recording& each : trace.recordings()) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"layers.0.self.masked", "layers.0.self.weights",
                                             "layers.0.self.weights.grad", "layers.1.self.weights"}));
  EXPECT_FALSE(same_bits(trace.find("layers.0.self.weights")->values, trace.find("layers.1.self.weights")->values));
}

TEST(TraceSteps, TracedOrNotTheResultHasTheSameBits) {
  test::on_every_isa([] {
    LayerCase plain, traced;
    plain.forward();
    Trace trace;
    traced.options.trace = &trace;
    traced.forward();
    EXPECT_TRUE(same_bits(plain.y, traced.y));
  });
}

TEST(TraceSteps, FollowFromEachOther) {
  test::on_every_isa([] {
    LayerCase layer;
    Trace trace;
    layer.options.trace = &trace;
    layer.forward();
    const auto at = [&](const char* name) { return trace.find(name)->values.view<4>(); };
    const auto q = at("q"), k = at("k"), v = at("v"), scores = at("scores"), scaled = at("scaled"),
               masked = at("masked"), weights = at("weights"), heads = at("heads");
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t i = 0; i < 7; ++i) {
          double sum = 0.0;
          for (int64_t j = 0; j < 9; ++j) {
            double score = 0.0;
            for (int64_t d = 0; d < 8; ++d) score += static_cast<double>(q(b, i, h, d)) * k(b, j, h / 2, d);
            EXPECT_NEAR(scores(b, h, i, j), score, 1e-5);
            EXPECT_NEAR(scaled(b, h, i, j), score / std::sqrt(8.0), 1e-5);
            const bool visible = j <= i + 2;
            EXPECT_EQ(masked(b, h, i, j), visible ? scaled(b, h, i, j) : -INFINITY);
            sum += visible ? std::exp(static_cast<double>(masked(b, h, i, j))) : 0.0;
          }
          for (int64_t j = 0; j < 9; ++j) {
            EXPECT_NEAR(weights(b, h, i, j), std::exp(static_cast<double>(masked(b, h, i, j))) / sum, 1e-6);
          }
          for (int64_t d = 0; d < 6; ++d) {
            double head = 0.0;
            for (int64_t j = 0; j < 9; ++j) head += static_cast<double>(weights(b, h, i, j)) * v(b, j, h / 2, d);
            EXPECT_NEAR(heads(b, i, h, d), head, 1e-6);
          }
        }
      }
    }
  });
}

TEST(TraceSteps, APartHasTheBitsOfTheWhole) {
  LayerCase whole, part;
  Trace all, some({{"weights", "scaled", "heads", "k"}, 3, QueryRange{2, 5}});
  whole.options.trace = &all;
  part.options.trace = &some;
  whole.forward();
  part.forward();
  ASSERT_EQ(some.recordings().size(), 4U);
  const auto weights = all.find("weights")->values.view<4>();
  const auto few = some.find("weights")->values.view<4>();
  EXPECT_EQ(few.shape(), (Shape<4>{2, 1, 3, 9}));
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t i = 0; i < 3; ++i) {
      for (int64_t j = 0; j < 9; ++j) EXPECT_EQ(few(b, 0, i, j), weights(b, 3, 2 + i, j));
    }
  }
  EXPECT_EQ(some.find("k")->first[2], 1);  // the key/value head that query head 3 reads
}

TEST(TraceSteps, ScoreOptionsAreStepsOfTheirOwn) {
  test::on_every_isa([] {
    LayerCase layer;
    const Tensor slopes = drawn({4}, 7), bias = drawn({1, 4, 7, 9}, 8);
    ScoreOptions& scores = layer.options.attention.scores;
    scores.soft_cap = 1.5F;
    scores.alibi_slopes = slopes.view<1>();
    scores.bias = bias.view<4>();
    scores.dropout.probability = 0.5F;
    Trace trace({{"scaled", "capped", "biased", "masked", "weights", "dropped"}, {}, {}});
    layer.options.trace = &trace;
    layer.forward();
    ASSERT_EQ(trace.recordings().size(), 6U);
    const auto at = [&](const char* name) { return trace.find(name)->values.view<4>(); };
    int64_t dropped = 0;
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < 7; ++i) {
        for (int64_t j = 0; j < 9; ++j) {
          EXPECT_NEAR(at("capped")(1, h, i, j), 1.5 * std::tanh(at("scaled")(1, h, i, j) / 1.5), 1e-5);
          const double away = std::abs(static_cast<double>(j - i - 2)) * static_cast<double>(slopes.view<1>()(h));
          EXPECT_NEAR(at("biased")(1, h, i, j), at("capped")(1, h, i, j) - away + bias.view<4>()(0, h, i, j), 1e-5);
          EXPECT_EQ(at("masked")(1, h, i, j), j <= i + 2 ? at("biased")(1, h, i, j) : -INFINITY);
          const float kept = at("dropped")(1, h, i, j);
          EXPECT_TRUE(kept == 0.0F || std::abs(kept - 2.0F * at("weights")(1, h, i, j)) < 1e-6F);
          dropped += kept == 0.0F && j <= i + 2 ? 1 : 0;
        }
      }
    }
    EXPECT_GT(dropped, 0);
  });
}

TEST(TraceSteps, OffItAllocatesNothing) {
  LayerCase layer;
  Arena arena;
  layer.options.attention.arena = &arena;
  layer.forward();
  const auto before = test::allocation_count();
  layer.forward();
  EXPECT_EQ(test::allocation_count(), before);
}

TEST(TraceSteps, GradientsOfWeightsAreDHeadsTimesVTransposed) {
  test::on_every_isa([] {
    LayerCase layer;
    Trace trace;
    layer.options.trace = &trace;
    layer.forward();
    const Tensor d_y = drawn({2, 7, 11}, 9);
    multihead_backward(layer.inputs(), layer.parameters(), layer.options, layer.state, d_y.view<3>(), {});
    const auto d_weights = trace.find("weights.grad")->values.view<4>();
    const auto v = trace.find("v")->values.view<4>();
    const auto w_o = layer.w_o.view<2>();
    for (int64_t h = 0; h < 4; ++h) {
      for (int64_t i = 0; i < 7; ++i) {
        for (int64_t j = 0; j < 9; ++j) {
          double expected = 0.0;
          for (int64_t d = 0; d < 6; ++d) {
            for (int64_t c = 0; c < 11; ++c) {
              expected += static_cast<double>(d_y.view<3>()(1, i, c)) * w_o(c, h * 6 + d) * v(1, j, h / 2, d);
            }
          }
          EXPECT_NEAR(d_weights(1, h, i, j), j <= i + 2 ? expected : 0.0, 1e-5);
        }
      }
    }
    for (const char* name : {"q.grad", "k.grad", "v.grad"}) {
      ASSERT_NE(trace.find(name), nullptr) << name;
      EXPECT_EQ(trace.find(name)->whole, trace.find(std::string(name, 1))->whole) << name;
    }
  });
}

}  // namespace
}  // namespace heed
