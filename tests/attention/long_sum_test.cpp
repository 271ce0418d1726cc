// Sums over many keys and many queries: their errors are those of short ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/attention_case.h"
#include "tests/support/cached_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/sanitized.h"

namespace heed::test {
namespace {

// The longest row; a sanitizer would take minutes for it.
const int64_t kLongest = kSanitized ? int64_t{1} << 14 : int64_t{1} << 20;

void fill(View<float, 4> view, float value) {
  for (int64_t b = 0; b < view.size(0); ++b) {
    for (int64_t t = 0; t < view.size(1); ++t) {
      for (int64_t h = 0; h < view.size(2); ++h) std::fill_n(&view(b, t, h, 0), view.size(3), value);
    }
  }
}

TEST(LongRows, EqualScoresAndValuesAreWithin4em6AtAnyLength) {
  for (int64_t length = 128; length <= kLongest; length *= 8) {
    for (const int64_t odd : {0, 77}) {
      AttentionCase c({.t_q = 3, .t_k = length + odd, .d_k = 1, .d_v = 3}, Layout::bthd, 1);
      c.options.scale = 1.0F;
      fill(c.k, 1.0F);
      for (const float value : {2.5F, 1.1F, -3.3F}) {
        fill(c.v, value);
        for (const float score : {0.0F, 0.3F, -7.7F, 60.0F}) {
          SCOPED_TRACE("length " + std::to_string(length + odd) + ", score " + std::to_string(score) + ", value " +
                       std::to_string(value));
          fill(c.q, score);
          on_every_isa([&] {
            c.forward();
            for (int64_t i = 0; i < 3; ++i) {
              for (int64_t d = 0; d < 3; ++d) ASSERT_NEAR(c.out(0, i, 0, d) / value, 1.0, 4e-6) << "query " << i;
            }
          });
        }
      }
    }
  }
}

// Weights of 1: only the sums of the values can err, and pieces of 128 are all that does.
TEST(LongRows, TheErrorOfEqualValuesDoesNotGrowWithLength) {
  std::vector<double> errors;
  for (const int64_t length : {int64_t{128}, kLongest}) {
    AttentionCase c({.t_q = 1, .t_k = length, .d_k = 1, .d_v = 1}, Layout::bthd, 1);
    double worst = 0.0;
    fill(c.q, 0.0F);
    for (int n = 0; n < 20; ++n) {
      const float value = 1.0F + 0.0483F * static_cast<float>(n);
      fill(c.v, value);
      on_every_isa([&] {
        c.forward();
        worst = std::max(worst, std::abs(static_cast<double>(c.out(0, 0, 0, 0)) / static_cast<double>(value) - 1.0));
      });
    }
    errors.push_back(worst);
  }
  EXPECT_LE(errors[1], errors[0] + 6e-7);
}

// The shift changes with every piece, and the weights of all but the last few dozen keys vanish beside theirs.
TEST(LongRows, ScoresThatRiseAlongTheKeysAreWithin4em6) {
  const int64_t length = std::min<int64_t>(kLongest, 1 << 17);
  AttentionCase c({.t_q = 2, .t_k = length, .d_k = 1, .d_v = 2}, Layout::bthd, 8);
  c.options.scale = 1.0F;
  fill(c.q, 1.0F);
  fill(c.v, 1.7F);
  for (const float slope : {1.0F / 4096.0F, 1.0F / 64.0F}) {
    for (int64_t j = 0; j < length; ++j) c.k(0, j, 0, 0) = 50.0F + slope * static_cast<float>(j);
    on_every_isa([&] {
      c.forward();
      for (int64_t i = 0; i < 2; ++i) ASSERT_NEAR(c.out(0, i, 0, 1) / 1.7F, 1.0, 4e-6) << "slope " << slope;
    });
  }
}

// Groups of pieces are counted from the first key of a segment, not from the first key that a row sees.
TEST(LongRows, DecodeAndWindowsHaveTheBitsOfForwardAcrossGroups) {
  AttentionCase c({.t_q = 5000, .t_k = 5000, .heads = 2, .kv_heads = 1, .d_k = 4, .d_v = 3}, Layout::bthd, 2);
  c.options.scale = 3.0F;
  DecodeOptions options;
  options.scale = 3.0F;
  DecodeOptions in_window = options;
  in_window.window_left = 3000;
  on_every_isa([&] {
    const DecodeBits expected = forward_bits(c);
    expect_same(decode_bits(c, even_chunks(5000, 1000), options), expected);
    expect_same(decode_bits(c, even_chunks(5000, 16), options), expected);
    const DecodeBits windowed = forward_bits(c, Mask::window(3000, 0));
    expect_same(decode_bits(c, even_chunks(5000, 10), in_window), windowed);
  });
}

struct ManyQueries {
  const char* name;
  AttentionSizes sizes;
  bool constant;
  double tolerance;
};

// d_k and d_v sum over queries and the heads of a group.
TEST(ManyQueries, ErrorsOfKeyAndValueGradientsStayFlat) {
  const int64_t most = kLongest;
  const ManyQueries all[] = {
      {"random, one head", {.t_q = most, .t_k = 5, .d_k = 3, .d_v = 2}, false, 1e-6},
      {"random, 8 heads", {.t_q = most / 8, .t_k = 5, .heads = 8, .kv_heads = 1, .d_k = 3, .d_v = 2}, false, 1e-6},
      {"random, short", {.t_q = 96, .t_k = 5, .d_k = 3, .d_v = 2}, false, 1e-6},
      {"constant, one head", {.t_q = most, .t_k = 5, .d_k = 3, .d_v = 2}, true, 5e-6},
      {"constant, 8 heads", {.t_q = most / 8, .t_k = 5, .heads = 8, .kv_heads = 1, .d_k = 3, .d_v = 2}, true, 5e-6},
  };
  for (const ManyQueries& many : all) {
    SCOPED_TRACE(many.name);
    AttentionCase c(many.sizes, Layout::bthd, 3);
    if (many.constant) {
      fill(c.q, 0.7F);
      fill(c.d_out, 0.3F);
    }
    const ReferenceResult expected = reference_result(c);
    on_every_isa([&] {
      const AttentionResults got = run(c);
      EXPECT_LE(relative_error(got.d_v, expected.d_v), many.tolerance);
      EXPECT_LE(relative_error(got.d_k, expected.d_k), many.tolerance);
    });
  }
}

TEST(ManyQueries, PaddingTheQueriesOfAGroupChangesNoBitOfTheKeysGradients) {
  AttentionCase alone({.t_q = 1600, .t_k = 40, .heads = 3, .kv_heads = 1, .d_k = 4, .d_v = 3}, Layout::bthd, 4);
  AttentionCase padded({.t_q = 1900, .t_k = 40, .heads = 3, .kv_heads = 1, .d_k = 4, .d_v = 3}, Layout::bthd, 5);
  for (int64_t t = 0; t < 1900; ++t) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t d = 0; d < 4 && t < 1600; ++d) padded.q(0, t, h, d) = alone.q(0, t, h, d);
      for (int64_t d = 0; d < 3; ++d) padded.d_out(0, t, h, d) = t < 1600 ? alone.d_out(0, t, h, d) : 0.0F;
    }
  }
  for (int64_t j = 0; j < 40; ++j) {
    std::copy_n(&alone.k(0, j, 0, 0), 4, &padded.k(0, j, 0, 0));
    std::copy_n(&alone.v(0, j, 0, 0), 3, &padded.v(0, j, 0, 0));
  }
  on_every_isa([&] {
    const AttentionResults a = run(alone);
    const AttentionResults b = run(padded);
    EXPECT_TRUE(same_bits(a.d_k, b.d_k));
    EXPECT_TRUE(same_bits(a.d_v, b.d_v));
  });
}

TEST(ExactZeros, ARowThatSeesOneKeyHasNoGradientOfQueryAndKey) {
  AttentionCase c({.t_q = 200, .t_k = 200, .heads = 2, .kv_heads = 1, .d_k = 24, .d_v = 17}, Layout::bthd, 6);
  const std::vector<float> no_bias(200 * 200, 0.0F);
  std::vector<float> diagonal_bias(200 * 200, -std::numeric_limits<float>::infinity());
  std::vector<char> bits(200 * 200, 0);
  for (size_t i = 0; i < 200; ++i) diagonal_bias[i * 200 + i] = 0.5F, bits[i * 200 + i] = 1;
  const View<const bool, 2> diagonal(reinterpret_cast<const bool*>(bits.data()), {200, 200});
  const auto expect_zero = [&] {
    const AttentionResults got = run(c);
    for (const float value : got.d_q) ASSERT_EQ(value, 0.0F);
    for (const float value : got.d_k) ASSERT_EQ(value, 0.0F);
    ASSERT_NE(got.d_v[0], 0.0F);
  };
  on_every_isa([&] {
    c.options.mask = Mask::window(0, 0);
    expect_zero();
    c.options.scores.bias = {no_bias.data(), {1, 1, 200, 200}};
    expect_zero();
    c.options.mask = Mask::keep(diagonal);
    expect_zero();
    c.options.mask = {};
    c.options.scores.bias = {diagonal_bias.data(), {1, 1, 200, 200}};
    expect_zero();
    c.options.scores.bias = {};
    // Row 0 of a causal mask is such a row among others.
    c.options.mask = Mask::causal();
    run(c);
    for (int64_t d = 0; d < 24; ++d) ASSERT_EQ(c.d_q(0, 0, 1, d), 0.0F);
  });
}

TEST(ExactZeros, TheGradientOfABiasHasNoMinusZeroAloneOrAmongDocuments) {
  AttentionCase c({.t_q = 60, .t_k = 60, .d_k = 4, .d_v = 3}, Layout::bthd, 7);
  const std::vector<float> bias(60 * 60, 0.0F);
  std::vector<float> d_bias(60 * 60);
  c.options.scores.bias = {bias.data(), {1, 1, 60, 60}};
  c.score_gradients.d_bias = View<float, 4>(d_bias.data(), {1, 1, 60, 60});
  fill(c.d_out, -0.0F);
  on_every_isa([&] {
    for (const Mask& mask : {Mask{}, Mask::causal(), Mask::documents({0, 30}), Mask::documents({0, 1, 2, 30})}) {
      c.options.mask = mask;
      run(c);
      for (const float value : d_bias) ASSERT_FALSE(value == 0.0F && std::signbit(value)) << mask.description();
    }
  });
}

}  // namespace
}  // namespace heed::test
