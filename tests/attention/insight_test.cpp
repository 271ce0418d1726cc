// Looking inside: every step as forward had it, to 4 ulp.
#include "heed/attention/insight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "heed/simd/base256.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/insight_results.h"
#include "tests/support/random_case.h"
#include "tests/support/sanitized.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int kCases = kSanitized ? 60 : 400;

float scale_factor(const AttentionCase& c) {
  const double scale =
      c.options.scale ? static_cast<double>(*c.options.scale) : 1.0 / std::sqrt(static_cast<double>(c.sizes.d_k));
  return static_cast<float>(scale * kLog256E);
}

// The stated chain: over d from 0, q times `factor` rounded once; fused where the instruction set is.
float chain(const AttentionCase& c, int64_t b, int64_t head, int64_t q, int64_t k, float factor) {
  float sum = 0.0F;
  for (int64_t d = 0; d < c.sizes.d_k; ++d) {
    const float x = c.q(b, q, head, d) * factor;
    const float y = c.k(b, k, head / (c.sizes.heads / c.sizes.kv_heads), d);
    sum = isa() == Isa::baseline ? x * y + sum : std::fma(x, y, sum);
  }
  return sum;
}

// |got - exact| in units of 2^-23 of its size, an ulp of a float.
double ulps(float got, long double exact) {
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / (exact * 0x1p-23L));
}

// Where a tile of a problem lies.
struct TileSize {
  TilePlace place;
  int64_t rows = 0;
  int64_t keys = 0;
};

TileSize draw_tile(Draw& draw, const AttentionSizes& s) {
  TileSize tile;
  tile.place = {draw.below(s.batch), draw.below(s.heads), draw.between(0, s.t_q), draw.between(0, s.t_k)};
  if (draw.chance(2)) tile.place.k = 0;
  tile.rows = draw.between(0, std::min<int64_t>(s.t_q - tile.place.q, 70));
  tile.keys = draw.chance(2) ? s.t_k - tile.place.k : draw.between(0, s.t_k - tile.place.k);
  return tile;
}

// Every element of the tile, for every step, against the forward's own arithmetic.
void expect_tile(const AttentionCase& c, const TileSize& tile) {
  const auto [b, head, q, k] = tile.place;
  const auto step = [&](AttentionStep each) { return StepTile(c, each, tile.place, tile.rows, tile.keys); };
  const StepTile scores = step(AttentionStep::scores);
  const StepTile scaled = step(AttentionStep::scaled);
  const StepTile masked = step(AttentionStep::masked);
  const StepTile weights = step(AttentionStep::weights);
  for (int64_t i = 0; i < tile.rows; ++i) {
    const auto shift = static_cast<long double>(c.rows.shift(b, head, q + i));
    const auto sum = static_cast<long double>(c.rows.sum(b, head, q + i));
    for (int64_t j = 0; j < tile.keys; ++j) {
      const float score = chain(c, b, head, q + i, k + j, scale_factor(c));
      ASSERT_EQ(scores.view(i, j), chain(c, b, head, q + i, k + j, 1.0F)) << "query " << q + i << ", key " << k + j;
      ASSERT_EQ(scaled.view(i, j), score * static_cast<float>(kLogOf256)) << "query " << q + i << ", key " << k + j;
      if (!c.visible(b, head, q + i, k + j)) {
        ASSERT_EQ(masked.view(i, j), -kInfinity) << "query " << q + i << ", key " << k + j;
        ASSERT_EQ(weights.view(i, j), 0.0F) << "query " << q + i << ", key " << k + j;
        continue;
      }
      ASSERT_EQ(masked.view(i, j), scaled.view(i, j)) << "query " << q + i << ", key " << k + j;
      const long double power = std::exp2(8.0L * (static_cast<long double>(score) - shift));
      if (power < 0x1p-125L) {  // forward's power underflows from there
        ASSERT_LE(weights.view(i, j), static_cast<float>(0x1p-125L / sum));
        continue;
      }
      ASSERT_LE(ulps(weights.view(i, j), power / sum), 4.0)
          << "query " << q + i << ", key " << k + j << ": score " << score << ", shift " << static_cast<double>(shift);
    }
  }
}

TEST(Insight, any_tile_of_any_step_is_recomputed_to_4_ulp) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomCase random(seed);
    AttentionCase& c = *random.problem;
    Draw draw(seed + 1000);
    const TileSize tile = draw_tile(draw, c.sizes);
    on_every_isa([&] {
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + c.sizes.to_text() + " mask " + c.options.mask.description());
      c.forward();
      expect_tile(c, tile);
    });
    ASSERT_FALSE(HasFailure());
  }
}

// Scores so large that rows have shifts other than 0.
TEST(Insight, weights_of_rows_with_large_shifts_are_recomputed_to_4_ulp) {
  for (const float scale : {15.0F, 40.0F, 1e4F}) {
    AttentionCase c({1, 70, 300, 2, 1, 16, 8}, Layout::bthd, 5);
    c.options.scale = scale;
    c.options.mask = Mask::causal(QueryPositions::bottom_right());
    on_every_isa([&] {
      SCOPED_TRACE("scale " + std::to_string(scale));
      c.forward();
      ASSERT_NE(c.rows.shift(0, 0, 69), 0.0F);
      expect_tile(c, {{0, 1, 0, 0}, 70, 300});
    });
  }
}

// A value of 1 for one key and 0 for all others makes forward tell the weight it gave that key.
TEST(Insight, weights_are_those_that_forward_used) {
  AttentionCase c({1, 70, 300, 2, 1, 16, 300}, Layout::bthd, 10);
  c.options.mask = Mask::causal(QueryPositions::bottom_right());
  for (int64_t j = 0; j < 300; ++j) {
    for (int64_t d = 0; d < 300; ++d) c.v(0, j, 0, d) = j == d ? 1.0F : 0.0F;
  }
  on_every_isa([&] {
    c.forward();
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 1);
    for (int64_t q = 0; q < 70; ++q) {
      for (int64_t j = 0; j < 300; ++j) {
        const float used = c.out(0, q, 1, j);
        ASSERT_NEAR(weights.view(q, j), used, 2e-7F * used) << "query " << q << ", key " << j;
      }
    }
  });
}

TEST(Insight, heads_have_the_bits_of_forward) {
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    Draw draw(seed + 2000);
    const TileSize tile = draw_tile(draw, c.sizes);
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      const auto [b, head, q, k] = tile.place;
      const StepTile heads(c, AttentionStep::heads, {b, head, q, 0}, tile.rows, c.sizes.d_v);
      const View<float, 4> rows = c.out.slice(0, b, 1).slice(2, head, 1).slice(1, q, tile.rows);
      ASSERT_TRUE(same_bits(heads.values, values_of(View<const float, 4>(rows))));
    });
    ASSERT_FALSE(HasFailure());
  }
}

TEST(Insight, all_weights_are_the_tiles_side_by_side) {
  for (uint64_t seed = 1; seed <= kCases / 4; ++seed) {
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      std::vector<float> tiles;
      for (int64_t b = 0; b < c.sizes.batch; ++b) {
        for (int64_t head = 0; head < c.sizes.heads; ++head) {
          const StepTile tile = whole_step(c, AttentionStep::weights, b, head);
          tiles.insert(tiles.end(), tile.values.begin(), tile.values.end());
        }
      }
      ASSERT_TRUE(same_bits(all_weights(c), tiles));
    });
  }
}

TEST(Insight, weights_of_a_row_that_sees_no_key_are_0) {
  on_every_isa([] {
    AttentionCase c({1, 7, 4, 2, 2, 5, 3}, Layout::bthd, 6);
    c.options.mask = Mask::causal(QueryPositions::bottom_right());  // queries 0 … 2 stand before the first key
    c.forward();
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 1);
    const StepTile masked = whole_step(c, AttentionStep::masked, 0, 1);
    for (int64_t j = 0; j < 12; ++j) {
      EXPECT_EQ(weights.values[static_cast<size_t>(j)], 0.0F);
      EXPECT_EQ(masked.values[static_cast<size_t>(j)], -kInfinity);
    }
    EXPECT_EQ(weights.view(3, 0), 1.0F);
  });
}

TEST(Insight, NaN_of_a_hidden_key_reaches_no_step_and_a_visible_one_its_rows_alone) {
  on_every_isa([] {
    AttentionCase c({1, 70, 70, 1, 1, 8, 4}, Layout::bthd, 7);
    c.options.mask = Mask::causal();
    c.forward();
    const StepTile clean = whole_step(c, AttentionStep::weights, 0, 0);
    for (int64_t d = 0; d < 8; ++d) c.k(0, 40, 0, d) = std::numeric_limits<float>::quiet_NaN();
    c.forward();
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 0);
    const StepTile masked = whole_step(c, AttentionStep::masked, 0, 0);
    for (int64_t i = 0; i < 70; ++i) {
      for (int64_t j = 0; j < 70; ++j) {
        if (j > i) {
          EXPECT_EQ(masked.view(i, j), -kInfinity);
          EXPECT_EQ(weights.view(i, j), 0.0F);
        } else if (i < 40) {
          EXPECT_EQ(weights.view(i, j), clean.view(i, j));
        } else {
          EXPECT_TRUE(std::isnan(weights.view(i, j))) << i << ", " << j;
          EXPECT_EQ(std::isnan(masked.view(i, j)), j == 40);
        }
      }
    }
  });
}

TEST(Insight, tiles_may_be_strided_and_nothing_around_them_is_written) {
  on_every_isa([] {
    AttentionCase c({1, 40, 50, 1, 1, 8, 4}, Layout::bhtd, 8);
    c.forward();
    for (const AttentionStep step : {AttentionStep::weights, AttentionStep::heads}) {
      const int64_t columns = step == AttentionStep::heads ? 4 : 21;
      const int64_t key = step == AttentionStep::heads ? 0 : 17;
      const StepTile plain(c, step, {0, 0, 3, key}, 33, columns);
      std::vector<float> memory(35 * 64, 5.0F);
      attention_tile(c.inputs(), c.options, c.rows, step, {0, 0, 3, key}, {memory.data() + 70, {33, columns}, {64, 1}});
      for (int64_t i = 0; i < 35 * 64; ++i) {
        const int64_t row = (i - 70) / 64;
        const int64_t column = (i - 70) % 64;
        const bool inside = i >= 70 && row < 33 && column < columns;
        ASSERT_EQ(memory[static_cast<size_t>(i)], inside ? plain.view(row, column) : 5.0F) << i;
      }
    }
  });
}

TEST(Insight, steps_have_names) {
  std::string names;
  for (const AttentionStep step : kSteps) {
    EXPECT_EQ(step_named(step_name(step)), step);
    names.append(step_name(step)).append(" ");
  }
  EXPECT_EQ(names, "scores scaled capped biased masked weights dropped heads ");
  expect_error([] { step_named("logits"); }, {"step_named", "'logits'", "scaled, capped"});
}

// With an arena nothing is allocated, and what it holds grows with T, not with Tq · Tk.
TEST(Insight, looking_takes_memory_of_the_length_alone) {
  AttentionCase c({1, 3000, 3000, 1, 1, 16, 16}, Layout::bthd, 9);
  Arena arena;
  c.options.arena = &arena;
  c.options.mask = Mask::causal();
  set_threads(1);
  c.forward();
  StepTile row(c, AttentionStep::weights, {0, 0, 2999, 0}, 1, 3000);
  StepTile heads(c, AttentionStep::heads, {0, 0, 2990, 0}, 10, 16);
  RowResults rows(c, 0, 3000, 5);
  std::vector<float> mass = mass_received(c);
  const int64_t before = allocation_count();
  attention_tile(c.inputs(), c.options, c.rows, AttentionStep::weights, {0, 0, 2999, 0}, row.view);
  attention_tile(c.inputs(), c.options, c.rows, AttentionStep::heads, {0, 0, 2990, 0}, heads.view);
  attention_row_insight(c.inputs(), c.options, c.rows, 0, rows.views);
  attention_mass_received(c.inputs(), c.options, c.rows, {mass.data(), {1, 1, 3000}});
  EXPECT_EQ(allocation_count(), before);
  EXPECT_LT(arena.capacity_bytes(), 1U << 20);  // the weights would be 36 MB
}

}  // namespace
}  // namespace heed::test
