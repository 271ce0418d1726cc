// Looking inside with score options: every step against the double reference, against forward and against each other.
// Heads, all weights, rows and keys have random options in insight_test.cpp and insight_rows_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/attention/dropout.h"
#include "heed/attention/insight.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"
#include "tests/support/insight_results.h"
#include "tests/support/random_case.h"
#include "tests/support/sanitized.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int kCases = kSanitized ? 60 : 400;

// The steps of one pair in double; NaN for those that are not taken.
struct PairSteps {
  double scores, scaled, capped, biased;
};

PairSteps steps_of_pair(const reference::Inputs<double>& in, int64_t b, int64_t head, int64_t i, int64_t j) {
  PairSteps pair{0.0, 0.0, 0.0, 0.0};
  for (int64_t d = 0; d < in.q.size(3); ++d) pair.scores += in.q(b, i, head, d) * in.k(b, j, in.kv_head(head), d);
  pair.scaled = in.scale * pair.scores;
  pair.capped = pair.scaled;
  if (in.options.soft_cap) {
    const auto cap = static_cast<double>(*in.options.soft_cap);
    pair.capped = cap * std::tanh(pair.scaled / cap);
  }
  pair.biased = reference::biased(in, pair.capped, b, head, i, j);
  return pair;
}

// Every taken step of one head, within 2e-6 of its largest value or of 1.
void expect_steps(const AttentionCase& c, const reference::Inputs<double>& in, int64_t b, int64_t head) {
  for (const AttentionStep step : kSteps) {
    if (step == AttentionStep::heads || !takes_step(c.options.scores, step)) continue;
    const size_t index = static_cast<size_t>(step) - static_cast<size_t>(AttentionStep::scores);
    const StepTile got = whole_step(c, step, b, head);
    Closeness closeness;
    for (int64_t i = 0; i < c.sizes.t_q; ++i) {
      const reference::Row<double> row = reference::score_row(in, b, head, i);
      for (int64_t j = 0; j < c.sizes.t_k; ++j) {
        const auto at = static_cast<size_t>(j);
        const PairSteps pair = steps_of_pair(in, b, head, i, j);
        const double masked = row.visible[at] ? pair.biased : static_cast<double>(-kInfinity);
        const double steps[] = {pair.scores,
                                pair.scaled,
                                pair.capped,
                                pair.biased,
                                masked,
                                row.weights[at],
                                row.weights[at] * row.kept[at]};
        closeness.add(got.view(i, j), steps[index]);
      }
    }
    const double least = step < AttentionStep::weights ? 1.0 : 0.0;
    EXPECT_LE(closeness.relative(least), 2e-6) << step_name(step) << " of item " << b << ", head " << head;
  }
}

TEST(InsightOptions, every_step_agrees_with_the_double_reference) {
  for (uint64_t seed = 2; seed <= kCases; seed += 2) {  // even: with options
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    const ReferenceInputs inputs(c);
    Draw draw(seed + 5000);
    const int64_t head = draw.below(c.sizes.heads);
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      expect_steps(c, inputs.in, c.sizes.batch - 1, head);
    });
    ASSERT_FALSE(HasFailure());
  }
}

// Bit by bit: masked is the step before it where a key is visible, dropped is weights times its factor.
void expect_steps_follow(const AttentionCase& c, int64_t b, int64_t head) {
  const ScoreOptions& scores = c.options.scores;
  const AttentionStep before = takes_step(scores, AttentionStep::biased)   ? AttentionStep::biased
                               : takes_step(scores, AttentionStep::capped) ? AttentionStep::capped
                                                                           : AttentionStep::scaled;
  const bool drops = takes_step(scores, AttentionStep::dropped);
  const StepTile unmasked = whole_step(c, before, b, head);
  const StepTile masked = whole_step(c, AttentionStep::masked, b, head);
  const StepTile weights = whole_step(c, AttentionStep::weights, b, head);
  const StepTile dropped = whole_step(c, drops ? AttentionStep::dropped : AttentionStep::weights, b, head);
  const auto scale = static_cast<float>(dropout_scale(scores.dropout));
  for (int64_t i = 0; i < c.sizes.t_q; ++i) {
    const DropoutRow row = dropout_row(dropout_head(scores.dropout, b, head), i);
    for (int64_t j = 0; j < c.sizes.t_k; ++j) {
      const bool kept = dropout_bits(row, j) >= dropout_threshold(scores.dropout);
      ASSERT_EQ(dropped.view(i, j), kept ? weights.view(i, j) * scale : 0.0F) << "query " << i << ", key " << j;
      const bool visible = c.visible(b, head, i, j);
      ASSERT_EQ(masked.view(i, j), visible ? unmasked.view(i, j) : -kInfinity) << "query " << i << ", key " << j;
      if (!visible) {
        ASSERT_EQ(weights.view(i, j), 0.0F) << "query " << i << ", key " << j;
      }
    }
  }
}

TEST(InsightOptions, steps_follow_from_each_other) {
  for (uint64_t seed = 2; seed <= kCases; seed += 2) {
    RandomOptionCase random(seed);
    AttentionCase& c = random.problem();
    Draw draw(seed + 6000);
    const int64_t head = draw.below(c.sizes.heads);
    on_every_isa([&] {
      SCOPED_TRACE(random.text);
      c.forward();
      expect_steps_follow(c, c.sizes.batch - 1, head);
    });
    ASSERT_FALSE(HasFailure());
  }
}

// Options for two heads that share a key/value head, 70 queries and 300 keys.
struct OptionSet {
  const char* name;
  void (*use)(AttentionCase&, ScoreTensors&);
};

constexpr OptionSet kOptionSets[] = {
    {"cap", [](AttentionCase& c, ScoreTensors&) { c.options.scores.soft_cap = 2.0F; }},
    {"bias", [](AttentionCase&, ScoreTensors& t) { t.use_bias(1, 2, 5); }},
    {"alibi", [](AttentionCase&, ScoreTensors& t) { t.use_alibi(); }},
    {"table", [](AttentionCase&, ScoreTensors& t) { t.use_table(32, 128, true); }},
    {"sinks", [](AttentionCase&, ScoreTensors& t) { t.use_sinks(); }},
    {"sigmoid", [](AttentionCase& c, ScoreTensors&) { c.options.scores.normaliser = Normaliser::sigmoid; }},
    {"dropout", [](AttentionCase& c, ScoreTensors&) { c.options.scores.dropout.probability = 0.3F; }},
    {"all",
     [](AttentionCase& c, ScoreTensors& t) {
       t.use_bias(1, 1, 7);
       t.use_alibi();
       t.use_table(16, 60, true);
       t.use_sinks();
       c.options.scores.soft_cap = 3.0F;
       c.options.scores.dropout = {0.2F, 11, 12, 13, {5}};
     }},
    {"all with sigmoid",
     [](AttentionCase& c, ScoreTensors& t) {
       t.use_bias(1, 1, 7);
       t.use_alibi();
       t.use_table(16, 60, false);
       c.options.scores.soft_cap = 3.0F;
       c.options.scores.normaliser = Normaliser::sigmoid;
       c.options.scores.dropout = {0.2F, 11, 12, 13, {5}};
     }},
};

// A value of 1 for one key and 0 for all others makes forward tell the weight, after dropout, that it gave that key.
TEST(InsightOptions, weights_are_those_that_forward_used) {
  for (const OptionSet& set : kOptionSets) {
    AttentionCase c({1, 70, 300, 2, 1, 16, 300}, Layout::bthd, 10);
    ScoreTensors tensors(c, 3);
    set.use(c, tensors);
    c.options.mask = Mask::causal(QueryPositions::bottom_right());
    for (int64_t j = 0; j < 300; ++j) {
      for (int64_t d = 0; d < 300; ++d) c.v(0, j, 0, d) = j == d ? 1.0F : 0.0F;
    }
    const bool sigmoid = c.options.scores.normaliser == Normaliser::sigmoid;
    const bool drops = takes_step(c.options.scores, AttentionStep::dropped);
    on_every_isa([&] {
      SCOPED_TRACE(set.name);
      c.forward();
      const StepTile weights = whole_step(c, drops ? AttentionStep::dropped : AttentionStep::weights, 0, 1);
      for (int64_t q = 0; q < 70; ++q) {
        for (int64_t j = 0; j < 300; ++j) {
          const float used = c.out(0, q, 1, j);
          const float near = sigmoid ? 0.0F : 3e-7F * used;  // sigmoid: the same bits
          ASSERT_NEAR(weights.view(q, j), used, near) << "query " << q << ", key " << j;
        }
      }
    });
  }
}

// Biases that move rows far from 0, so that their shifts are not 0 and differ from piece to piece.
TEST(InsightOptions, weights_of_rows_with_large_shifts_are_those_that_forward_used) {
  AttentionCase c({1, 70, 300, 2, 1, 16, 300}, Layout::bthd, 10);
  ScoreTensors tensors(c, 3);
  tensors.use_bias(1, 2, 5);
  tensors.use_sinks();
  for (int64_t i = 0; i < 70; ++i) {
    for (int64_t j = 0; j < 300; ++j) tensors.bias()(0, 1, i, j) += 90.0F + static_cast<float>(j / 100 * (i % 3));
  }
  for (int64_t j = 0; j < 300; ++j) {
    for (int64_t d = 0; d < 300; ++d) c.v(0, j, 0, d) = j == d ? 1.0F : 0.0F;
  }
  on_every_isa([&] {
    c.forward();
    ASSERT_GT(c.rows.shift(0, 1, 69), 100.0F / 8.0F);
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 1);
    for (int64_t q = 0; q < 70; ++q) {
      for (int64_t j = 0; j < 300; ++j) {
        const float used = c.out(0, q, 1, j);
        // Forward's score less its shift is rounded; here that error was put back.
        ASSERT_NEAR(weights.view(q, j), used, 1e-6F * used) << "query " << q << ", key " << j;
      }
    }
  });
}

// Forward takes those below 2^-100 of the shift for 0 with options: beside the row's sum they are nothing.
TEST(InsightOptions, weights_far_below_the_row_s_sum_are_shown_as_they_are) {
  AttentionCase c({1, 1, 40, 1, 1, 4, 2}, Layout::bthd, 4);
  const std::vector<float> bias = [] {
    std::vector<float> values(40, 0.0F);
    for (size_t j = 20; j < 40; ++j) values[j] = -60.0F - static_cast<float>(j - 20);
    return values;
  }();
  c.options.scale = 0.0F;
  c.options.scores.bias = {bias.data(), {1, 1, 1, 40}};
  on_every_isa([&] {
    c.forward();
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 0);
    for (int64_t j = 20; j < 40; ++j) {
      const double exponent = static_cast<double>(bias[static_cast<size_t>(j)]) / std::log(2.0);
      EXPECT_NEAR(weights.view(0, j) * 20.0F, std::exp2(exponent), 1e-5 * std::exp2(exponent)) << j;
    }
  });
}

TEST(InsightOptions, a_row_that_sees_nothing_but_a_sink_has_weights_and_entropy_0) {
  on_every_isa([] {
    AttentionCase c({2, 20, 40, 1, 1, 4, 2}, Layout::bthd, 13);
    const float sink = 0.7F;
    c.options.scores.sinks = {&sink, {1}};
    for (const Mask& mask : {Mask::lengths({0, 2}), Mask::causal(QueryPositions::from(-5))}) {
      c.options.mask = mask;
      c.forward();
      const RowResults got(c, 0, 20, 2);
      const StepTile weights = whole_step(c, AttentionStep::weights, 0, 0);
      for (int64_t q = 0; q < 5; ++q) {
        EXPECT_EQ(got.views.entropy(0, 0, q), 0.0F);
        EXPECT_EQ(got.views.largest(0, 0, q), -kInfinity);
        EXPECT_EQ(got.views.top_keys(0, 0, q, 0), -1);
        for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(weights.view(q, j), 0.0F);
      }
    }
  });
}

// One key and a sink of equal logits: a fair coin. A sink of NaN makes every row NaN, and -∞ is no sink.
TEST(InsightOptions, entropy_counts_the_sink) {
  on_every_isa([] {
    AttentionCase c({1, 3, 1, 2, 1, 4, 2}, Layout::bthd, 13);
    c.options.scale = 0.0F;
    float sinks[] = {0.0F, -kInfinity};
    c.options.scores.sinks = {sinks, {2}};
    c.forward();
    const RowResults got(c, 0, 3, 1);
    EXPECT_NEAR(got.views.entropy(0, 0, 1), std::log(2.0), 1e-7);
    EXPECT_NEAR(got.views.top_weights(0, 0, 1, 0), 0.5, 1e-7);
    EXPECT_EQ(got.views.entropy(0, 1, 1), 0.0F);
    EXPECT_EQ(got.views.top_weights(0, 1, 1, 0), 1.0F);
    sinks[1] = kNan;
    c.options.mask = Mask::causal(QueryPositions::from(-1));  // query 0 sees nothing
    c.forward();
    const RowResults unknown(c, 0, 3, 1);
    for (int64_t q = 0; q < 3; ++q) EXPECT_TRUE(std::isnan(unknown.views.entropy(0, 1, q))) << q;
    EXPECT_EQ(unknown.views.entropy(0, 0, 0), 0.0F);
  });
}

// Key 135 stands in the first of the second piece's runs, of which a causal mask makes several.
TEST(InsightOptions, a_key_that_the_bias_hides_reaches_nothing_and_NaN_in_it_its_rows_alone) {
  const auto test = [](const Mask& mask) {
    SCOPED_TRACE(mask.description());
    AttentionCase c({1, 70, 200, 1, 1, 8, 4}, Layout::bthd, 7);
    ScoreTensors tensors(c, 3);
    tensors.use_bias(1, 1);
    c.options.mask = mask;
    for (int64_t i = 0; i < 70; ++i) tensors.bias()(0, 0, i, 135) = -kInfinity;
    c.forward();
    const StepTile clean = whole_step(c, AttentionStep::weights, 0, 0);
    const std::vector<float> clean_mass = mass_received(c);
    const RowResults clean_rows(c, 0, 70, 200);
    for (int64_t d = 0; d < 8; ++d) c.k(0, 135, 0, d) = kNan;
    c.forward();
    EXPECT_TRUE(same_bits(whole_step(c, AttentionStep::weights, 0, 0).values, clean.values));
    EXPECT_TRUE(same_bits(mass_received(c), clean_mass));
    EXPECT_EQ(clean_mass[135], 0.0F);
    const RowResults rows(c, 0, 70, 200);
    EXPECT_TRUE(same_bits(rows.entropy, clean_rows.entropy) && same_bits(rows.largest, clean_rows.largest));
    EXPECT_EQ(rows.top_keys, clean_rows.top_keys);
    for (int64_t i = 0; i < 70; ++i) EXPECT_EQ(rows.views.top_keys(0, 0, i, 199), -1);
    for (const AttentionStep step : {AttentionStep::biased, AttentionStep::masked}) {
      EXPECT_EQ(whole_step(c, step, 0, 0).view(69, 135), -kInfinity) << step_name(step);
    }

    tensors.bias()(0, 0, 33, 20) = kNan;
    c.forward();
    const StepTile weights = whole_step(c, AttentionStep::weights, 0, 0);
    const RowResults unknown(c, 0, 70, 1);
    for (int64_t i = 0; i < 70; ++i) {
      EXPECT_EQ(std::isnan(weights.view(i, 0)), i == 33) << i;
      EXPECT_EQ(std::isnan(unknown.views.entropy(0, 0, i)), i == 33) << i;
      EXPECT_EQ(weights.view(i, 135), 0.0F);
    }
  };
  on_every_isa([&] {
    test(Mask());
    test(Mask::causal(QueryPositions::bottom_right()));
  });
}

TEST(InsightOptions, same_bits_for_any_threads_batch_mates_and_rows_at_a_time) {
  const int before = threads();
  on_every_isa([] {
    AttentionCase c({3, 300, 400, 4, 2, 24, 8}, Layout::bthd, 17);
    ScoreTensors tensors(c, 3);
    tensors.use_bias(1, 4, 9);
    tensors.use_table(16, 60, true);
    tensors.use_alibi();
    tensors.use_sinks();
    c.options.scores.soft_cap = 2.0F;
    c.options.scores.dropout = {0.4F, 1, 2, 3, {5, 8, 2}};
    c.options.mask = Mask::causal(QueryPositions::bottom_right());
    set_threads(1);
    c.forward();
    const RowResults rows(c, 0, 300, 5);
    const std::vector<float> mass = mass_received(c);
    const std::vector<float> weights = all_weights(c);
    const StepTile dropped = whole_step(c, AttentionStep::dropped, 1, 2);
    set_threads(3);
    const RowResults again(c, 0, 300, 5);
    EXPECT_TRUE(same_bits(again.entropy, rows.entropy) && same_bits(again.largest, rows.largest) &&
                same_bits(again.top_weights, rows.top_weights));
    EXPECT_EQ(again.top_keys, rows.top_keys);
    EXPECT_TRUE(same_bits(mass_received(c), mass));
    EXPECT_TRUE(same_bits(all_weights(c), weights));
    EXPECT_TRUE(same_bits(whole_step(c, AttentionStep::dropped, 1, 2).values, dropped.values));

    const StepTile some(c, AttentionStep::dropped, {1, 2, 137, 50}, 3, 300);
    const RowResults some_rows(c, 137, 3, 5);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(some_rows.views.entropy(1, 2, i), rows.views.entropy(1, 2, 137 + i));
      EXPECT_EQ(some_rows.views.top_weights(1, 2, i, 4), rows.views.top_weights(1, 2, 137 + i, 4));
      for (int64_t j = 0; j < 300; ++j) ASSERT_EQ(some.view(i, j), dropped.view(137 + i, 50 + j)) << i << ", " << j;
    }

    // Item 1 alone, by its id.
    const AttentionInputs alone{c.q.slice(0, 1, 1), c.k.slice(0, 1, 1), c.v.slice(0, 1, 1)};
    const RowStates<float> states{c.rows.shift.slice(0, 1, 1), c.rows.sum.slice(0, 1, 1)};
    c.options.scores.dropout.item_ids = {8};
    std::vector<float> values(300 * 400);
    const View<float, 2> view(values.data(), {300, 400});
    attention_tile(alone, c.options, states, AttentionStep::dropped, {0, 2, 0, 0}, view);
    EXPECT_TRUE(same_bits(values, dropped.values));
  });
  set_threads(before);
}

// With an arena nothing is allocated, and what it holds grows with T, not with Tq · Tk.
TEST(InsightOptions, looking_takes_memory_of_the_length_alone) {
  AttentionCase c({1, 3000, 3000, 1, 1, 16, 16}, Layout::bthd, 9);
  ScoreTensors tensors(c, 3);
  tensors.use_table(16, 60, true);
  tensors.use_alibi();
  c.options.scores.dropout = {0.4F, 1, 2, 3, {5}};
  Arena arena;
  c.options.arena = &arena;
  c.options.mask = Mask::causal();
  set_threads(1);
  c.forward();
  StepTile row(c, AttentionStep::dropped, {0, 0, 2999, 0}, 1, 3000);
  StepTile heads(c, AttentionStep::heads, {0, 0, 2990, 0}, 10, 16);
  RowResults rows(c, 0, 3000, 5);
  std::vector<float> mass = mass_received(c);
  const int64_t before = allocation_count();
  for (const AttentionStep step : {AttentionStep::scaled, AttentionStep::biased, AttentionStep::dropped}) {
    attention_tile(c.inputs(), c.options, c.rows, step, {0, 0, 2999, 0}, row.view);
  }
  attention_tile(c.inputs(), c.options, c.rows, AttentionStep::heads, {0, 0, 2990, 0}, heads.view);
  attention_row_insight(c.inputs(), c.options, c.rows, 0, rows.views);
  attention_mass_received(c.inputs(), c.options, c.rows, {mass.data(), {1, 1, 3000}});
  EXPECT_EQ(allocation_count(), before);
  EXPECT_LT(arena.capacity_bytes(), 1U << 20);  // the weights would be 36 MB
}

}  // namespace
}  // namespace heed::test
