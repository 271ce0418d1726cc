// The layer around attention: projections, concatenated heads, W_O, and every gradient.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <vector>

#include "heed/attention/reference.h"
#include "heed/ops/matmul.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/layer_case.h"

namespace heed::test {
namespace {

using Complex = std::complex<double>;

// The whole layer in plain maths, from flat copies of the layer's tensors; returns Σ y · d_y.
struct PlainLayer {
  explicit PlainLayer(const Layer& layer) : layer_(layer) {
    for (int i = 0; i < 3; ++i) x[i] = copy(layer.x[i]);
    weight = copy(layer.weight);
    bias = copy(layer.bias);
    w_out = copy(layer.w_out);
    out_bias = copy(layer.out_bias);
  }

  static std::vector<Complex> copy(const Tensor& tensor) { return {tensor.values().begin(), tensor.values().end()}; }

  std::vector<Complex> forward() const {
    const LayerSizes& s = layer_.s;
    std::vector<Complex> projected[3];
    size_t weight_at = 0;
    size_t bias_at = 0;
    for (int i = 0; i < 3; ++i) {
      const auto inputs = static_cast<size_t>(s.inputs(i));
      const std::vector<Complex>& from = x[s.self ? 0 : i];
      for (size_t token = 0; token < from.size() / inputs; ++token) {
        for (size_t row = 0; row < static_cast<size_t>(s.rows(i)); ++row) {
          Complex sum = s.biases ? bias[bias_at + row] : Complex{};
          for (size_t c = 0; c < inputs; ++c) sum += from[token * inputs + c] * weight[weight_at + row * inputs + c];
          projected[i].push_back(sum);
        }
      }
      weight_at += static_cast<size_t>(s.rows(i)) * inputs;
      bias_at += static_cast<size_t>(s.rows(i));
    }
    const Shape<4> shapes[3] = {
        {s.batch, s.t_q, s.heads, s.d_k}, {s.batch, s.t_k, s.kv_heads, s.d_k}, {s.batch, s.t_k, s.kv_heads, s.d_v}};
    const LayerRotary& rotary = layer_.options.rotary;
    apply_rotary({projected[0].data(), shapes[0]}, rotary.query);
    apply_rotary({projected[1].data(), shapes[1]}, rotary.key);
    std::vector<Complex> heads(static_cast<size_t>(s.batch * s.t_q * s.heads * s.d_v));
    reference::Inputs<Complex> in{{projected[0].data(), shapes[0]},
                                  {projected[1].data(), shapes[1]},
                                  {projected[2].data(), shapes[2]},
                                  layer_.options.attention.mask,
                                  Complex(1.0 / std::sqrt(static_cast<double>(s.d_k)))};
    reference::forward<Complex>(in, {heads.data(), {s.batch, s.t_q, s.heads, s.d_v}});
    if (!s.w_o) return heads;
    std::vector<Complex> y;
    const auto width = static_cast<size_t>(s.heads * s.d_v);
    for (size_t token = 0; token < heads.size() / width; ++token) {
      for (size_t row = 0; row < static_cast<size_t>(s.c_out); ++row) {
        Complex sum = s.biases ? out_bias[row] : Complex{};
        for (size_t c = 0; c < width; ++c) sum += heads[token * width + c] * w_out[row * width + c];
        y.push_back(sum);
      }
    }
    return y;
  }

  // (x, y) → (x cos a - y sin a, x sin a + y cos a), for every pair of every head.
  void apply_rotary(View<Complex, 4> heads, const RotaryPositions& where) const {
    const RotaryTable* const table = layer_.options.rotary.table;
    if (table == nullptr) return;
    const bool neighbours = table->options().pairing == RotaryPairing::interleaved;
    const int64_t pairs = table->pairs();
    for (int64_t b = 0; b < heads.size(0); ++b) {
      for (int64_t t = 0; t < heads.size(1); ++t) {
        const float* const row =
            table->row((where.offsets.empty() ? where.offset : where.offsets[static_cast<size_t>(b)]) + t);
        for (int64_t h = 0; h < heads.size(2); ++h) {
          for (int64_t i = 0; i < pairs; ++i) {
            Complex& one = heads(b, t, h, neighbours ? 2 * i : i);
            Complex& other = heads(b, t, h, neighbours ? 2 * i + 1 : pairs + i);
            const Complex before = one;
            const double cosine = row[i];
            const double sine = row[pairs + i];
            one = before * cosine - other * sine;
            other = before * sine + other * cosine;
          }
        }
      }
    }
  }

  Complex loss() const {
    const std::vector<Complex> y = forward();
    Complex sum{};
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(layer_.d_y.values()[i]);
    return sum;
  }

  // ∂loss/∂values by complex steps.
  std::vector<double> gradient(std::vector<Complex>& values) {
    std::vector<double> result;
    for (Complex& value : values) {
      const Complex before = value;
      value += Complex(0.0, 1e-30);
      result.push_back(loss().imag() / 1e-30);
      value = before;
    }
    return result;
  }

  std::vector<Complex> x[3], weight, bias, w_out, out_bias;

 private:
  const Layer& layer_;
};

void expect_right(const LayerSizes& sizes, const Mask& mask, const LayerRotary& rotary = {}) {
  Layer layer(sizes);
  layer.options.attention.mask = mask;
  layer.options.rotary = rotary;
  PlainLayer plain(layer);
  std::vector<double> y;
  for (const Complex& value : plain.forward()) y.push_back(value.real());
  const std::vector<double> d_weight = plain.gradient(plain.weight);
  const std::vector<double> d_bias = plain.gradient(plain.bias);
  const std::vector<double> d_w_out = plain.gradient(plain.w_out);
  const std::vector<double> d_out_bias = plain.gradient(plain.out_bias);
  std::vector<double> d_x[3];
  for (int i = 0; i < (sizes.self ? 1 : 3); ++i) d_x[i] = plain.gradient(plain.x[i]);
  on_every_isa([&] {
    layer.run();
    EXPECT_LE(relative_error(floats(layer.y), y), 2e-6);
    EXPECT_LE(relative_error(floats(layer.d_weight), d_weight), 1e-5);
    if (sizes.biases) {
      EXPECT_LE(relative_error(floats(layer.d_bias), d_bias, 1.0), 1e-5);
    }
    if (sizes.w_o) {
      EXPECT_LE(relative_error(floats(layer.d_w_out), d_w_out), 1e-5);
    }
    if (sizes.w_o && sizes.biases) {
      EXPECT_LE(relative_error(floats(layer.d_out_bias), d_out_bias), 1e-5);
    }
    for (int i = 0; i < (sizes.self ? 1 : 3); ++i) EXPECT_LE(relative_error(floats(layer.d_x[i]), d_x[i]), 1e-5);
  });
}

TEST(MultiHead, SevenIndependentSizesAndEveryGradientAgainstComplexSteps) { expect_right({}, Mask()); }

TEST(MultiHead, MaskedCrossAttention) { expect_right({}, Mask::causal(QueryPositions::bottom_right())); }

TEST(MultiHead, SelfAttentionThroughOneProjection) {
  expect_right(self_sizes(), Mask::causal());
  Layer layer(self_sizes());
  layer.run();
  EXPECT_TRUE(layer.state.fused);
}

TEST(MultiHead, RotaryPositionsAndEveryGradientAgainstComplexSteps) {
  const std::vector<int64_t> offsets = {3, 0};
  for (const RotaryPairing pairing : {RotaryPairing::interleaved, RotaryPairing::halves}) {
    // 4 of the 5 elements of a head are rotated.
    const RotaryTable table({.pairing = pairing, .base = 100.0, .width = 4, .positions = 12});
    LayerSizes self = self_sizes();
    self.d_k = 5;
    expect_right(self, Mask::causal(), {&table, {}, {}});
    LayerSizes cross;
    cross.d_k = 5;
    expect_right(cross, Mask(), {&table, {.offset = 2}, {.offset = 0, .offsets = offsets}});
  }
}

Tensor copy_of(View<const float, 4> from) {
  Tensor result({from.shape().begin(), from.shape().end()});
  const View<float, 4> to = result.view<4>();
  for (int64_t b = 0; b < to.size(0); ++b) {
    for (int64_t t = 0; t < to.size(1); ++t) {
      for (int64_t h = 0; h < to.size(2); ++h) std::copy_n(&from(b, t, h, 0), to.size(3), &to(b, t, h, 0));
    }
  }
  return result;
}

TEST(MultiHead, RotaryPositionsAreRotaryForwardOnTheProjections) {
  const RotaryTable table({.width = 2, .positions = 5});
  on_every_isa([&] {
    Layer plain(self_sizes());
    Layer turned(self_sizes());
    turned.options.rotary.table = &table;
    plain.forward();
    turned.forward();
    for (const auto part : {&AttentionInputs::q, &AttentionInputs::k, &AttentionInputs::v}) {
      Tensor expected = copy_of(plain.state.attention.*part);
      const Tensor got = copy_of(turned.state.attention.*part);
      if (part != &AttentionInputs::v) rotary_forward(expected.view<4>(), table, {}, expected.view<4>());
      EXPECT_TRUE(same_bits(floats(expected), floats(got)));
    }
    EXPECT_FALSE(same_bits(floats(plain.y), floats(turned.y)));
  });
}

TEST(MultiHead, WithoutBiasesAndWithoutOutputProjection) {
  LayerSizes sizes = self_sizes();
  sizes.biases = false;
  expect_right(sizes, Mask());
  sizes.w_o = false;
  expect_right(sizes, Mask());
}

TEST(MultiHead, FusedAndSeparateProjectionsHaveTheSameBits) {
  LayerSizes sizes = self_sizes();
  Layer fused(sizes);
  fused.run();
  sizes.self = false;
  Layer apart(sizes);
  apart.x[1] = apart.x[2] = apart.x[0] = fused.x[0];
  apart.run();
  EXPECT_FALSE(apart.state.fused);
  EXPECT_TRUE(same_bits(floats(fused.y), floats(apart.y)));
  EXPECT_TRUE(same_bits(floats(fused.d_weight), floats(apart.d_weight)));
  EXPECT_TRUE(same_bits(floats(fused.d_bias), floats(apart.d_bias)));
}

TEST(MultiHead, SameBitsForAnyThreadsAndBatchMates) {
  LayerSizes sizes = self_sizes();
  sizes.t_q = sizes.t_k = 70;
  sizes.c_q = sizes.c_k = sizes.c_v = 48;
  sizes.d_k = sizes.d_v = 16;
  on_every_isa([&] {
    Layer layer(sizes);
    set_threads(1);
    layer.run();
    const std::vector<float> y = floats(layer.y);
    const std::vector<float> d_x = floats(layer.d_x[0]);
    const std::vector<float> d_weight = floats(layer.d_weight);
    set_threads(3);
    layer.run();
    EXPECT_TRUE(same_bits(y, floats(layer.y)));
    EXPECT_TRUE(same_bits(d_x, floats(layer.d_x[0])));
    EXPECT_TRUE(same_bits(d_weight, floats(layer.d_weight)));
    // The first item alone.
    LayerSizes one = sizes;
    one.batch = 1;
    Layer alone(one);
    alone.run();
    EXPECT_TRUE(same_bits(floats(alone.y), {y.begin(), y.begin() + alone.y.count()}));
  });
  set_threads(1);
}

// The notes' self attention, weights transposed as PyTorch has them; exact values of float64, to 4 places.
TEST(MultiHead, TheWorkedExampleSelf) {
  const float w[4][9] = {{-0.35F, 0.36F, -0.51F, 0.51F, -0.47F, -0.14F, 0.50F, -0.29F, -0.56F},
                         {-0.49F, -0.44F, 0.07F, -0.68F, -0.46F, -0.10F, 0.18F, 0.18F, 0.44F},
                         {-0.41F, -0.40F, -0.55F, 0.39F, -0.07F, -0.13F, -0.65F, -0.34F, -0.29F},
                         {-0.36F, 0.27F, -0.05F, -0.08F, 0.05F, -0.28F, 0.32F, 0.15F, 0.05F}};
  const float x[6] = {-0.1F, 0.1F, 0.3F, 0.4F, -1.1F, -0.3F};
  const double expected[6] = {-0.0290, -0.0273, 0.0634, -0.0253, -0.0244, 0.0562};
  MultiHeadParameters<const float> p;
  p.q = {w[0], {3, 3}};
  p.k = {w[1], {3, 3}};
  p.v = {w[2], {3, 3}};
  p.out = {w[3], {3, 3}};
  MultiHeadState state;
  Tensor y({1, 2, 3});
  multihead_forward(MultiHeadInputs::self({x, {1, 2, 3}}), p, {.heads = 1}, state, y.view<3>());
  for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(y.values()[i], expected[i], 0.5e-4);
}

// The layer's attention is attention_forward and attention_backward with these options, on the layer's q, k and v.
TEST(MultiHead, ScoreOptionsAndTheirGradientsAreAttentions) {
  on_every_isa([] {
    for (const Normaliser normaliser : {Normaliser::softmax, Normaliser::sigmoid}) {
      Layer layer(self_sizes());
      const LayerSizes& s = layer.s;
      const Tensor bias = normal({1, s.heads, s.t_q, s.t_k}, 30);
      const Tensor slopes = normal({s.heads}, 31);
      AttentionOptions& options = layer.options.attention;
      options.scores.bias = bias.view<4>();
      options.scores.alibi_slopes = slopes.view<1>();
      options.scores.soft_cap = 2.0F;
      options.scores.normaliser = normaliser;
      Tensor d_bias({1, s.heads, s.t_q, s.t_k}), d_slopes({s.heads});
      MultiHeadGradients gradients = layer.gradients();
      gradients.scores.d_bias = d_bias.view<4>();
      gradients.scores.d_alibi_slopes = d_slopes.view<1>();
      layer.forward();
      multihead_backward(layer.inputs(), layer.parameters(), layer.options, layer.state, layer.d_y.view<3>(),
                         gradients);

      const Shape<4> heads_shape{s.batch, s.t_q, s.heads, s.d_v};
      Tensor out({s.batch, s.t_q, s.heads, s.d_v}), shift({s.batch, s.heads, s.t_q}), sum = shift;
      RowStates<float> rows{shift.view<3>(), sum.view<3>()};
      if (normaliser == Normaliser::sigmoid) rows = {};
      attention_forward(layer.state.attention, options, out.view<4>(), rows);
      EXPECT_EQ(floats(layer.state.concat), floats(out));

      Tensor d_q({s.batch, s.t_q, s.heads, s.d_k}), d_k({s.batch, s.t_k, s.kv_heads, s.d_k});
      Tensor d_v({s.batch, s.t_k, s.kv_heads, s.d_v}), d_bias_alone = bias, d_slopes_alone({s.heads});
      AttentionGradients alone{d_q.view<4>(), d_k.view<4>(), d_v.view<4>()};
      alone.scores.d_bias = d_bias_alone.view<4>();
      alone.scores.d_alibi_slopes = d_slopes_alone.view<1>();
      Tensor d_concat({s.batch * s.t_q, s.heads * s.d_v});
      matmul({layer.d_y.values().data(), {s.batch * s.t_q, s.c_out}}, layer.w_out.view<2>(), d_concat.view<2>());
      const View<const float, 4> d_out(d_concat.values().data(), heads_shape);
      attention_backward(layer.state.attention, options, {out.view<4>(), rows, d_out}, alone);
      EXPECT_EQ(floats(d_bias), floats(d_bias_alone));
      EXPECT_EQ(floats(d_slopes), floats(d_slopes_alone));
      EXPECT_NE(floats(d_slopes), std::vector<float>(static_cast<size_t>(s.heads)));
    }
  });
}

}  // namespace
}  // namespace heed::test
