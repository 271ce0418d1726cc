// The worked examples give the exact numbers: recomputed in double and rounded to 4 places.
#include "heed/explain/examples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attend_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"

namespace heed::explain {
namespace {

using test::Numbers;

struct ExactStep {
  std::string step;
  Numbers numbers;
};

void expect_steps(const std::string& name, const AttendCase& given, const std::vector<ExactStep>& steps) {
  test::on_every_isa([&] {
    const Walkthrough walkthrough = attend(given, {});
    for (const auto& [step, numbers] : steps) {
      test::expect_rounded(test::numbers_of(walkthrough, step), numbers, name + " " + step);
    }
    ASSERT_TRUE(walkthrough.checks.ref_max_abs_diff) << name;
    EXPECT_LT(*walkthrough.checks.ref_max_abs_diff, 5e-7) << name;
  });
}

const Numbers kQueries = {-0.0820, -0.1400, -0.2470, -0.3830, 0.7630, 0.6870};
const Numbers kKeys = {0.0260, -0.0080, 0.1320, 0.2670, 0.2640, -0.2580};
const Numbers kValues = {-0.1640, -0.0850, -0.0560, 0.4410, 0.2720, 0.2010};

TEST(Examples, OneToken) {
  expect_steps("one-token", example("one-token"),
               {{"scaled", {-0.0194}}, {"weights", {1}}, {"out", {0.0389, 0.0246, -0.0680}}});
}

TEST(Examples, Self) {
  expect_steps("self", example("self"),
               {{"q", kQueries},
                {"k", kKeys},
                {"v", kValues},
                {"scaled", {-0.0194, 0.0028, 0.0431, -0.0451}},
                {"weights", {0.4944, 0.5056, 0.5220, 0.4780}},
                {"heads", {0.1419, 0.0955, 0.0739, 0.1252, 0.0856, 0.0668}},
                {"concat", {0.1419, 0.0955, 0.0739, 0.1252, 0.0856, 0.0668}},
                {"out", {-0.0290, -0.0273, 0.0634, -0.0253, -0.0244, 0.0562}}});
}

TEST(Examples, Masked) {
  expect_steps("masked", example("masked"),
               {{"weights", {1, 0, 0.5220, 0.4780}}, {"out", {0.0389, 0.0246, -0.0680, -0.0253, -0.0244, 0.0562}}});
}

TEST(Examples, Cross) {
  expect_steps("cross", example("cross"),
               {{"q", {0.5220, -0.3910, -0.1630, 0.4040, -0.0980, 0.2690}},
                {"k", kKeys},
                {"v", kValues},
                {"scaled", {-0.0028, 0.0452, 0.0270, 0.0073}},
                {"weights", {0.4880, 0.5120, 0.5049, 0.4951}},
                {"heads", {0.1457, 0.0978, 0.0756, 0.1355, 0.0917, 0.0712}},
                {"out", {-0.0298, -0.0279, 0.0651, -0.0276, -0.0262, 0.0607}}});
}

TEST(Examples, Sigmoid) {
  expect_steps(
      "sigmoid", example("sigmoid"),
      {{"weights", {0.4951, 0.5007, 0.5108, 0.4887}}, {"out", {-0.0285, -0.0269, 0.0624, -0.0267, -0.0256, 0.0591}}});
}

TEST(Examples, SigmoidWithACausalMask) {
  AttendCase given = example("sigmoid");
  given.causal = true;
  expect_steps(
      "sigmoid, causal", given,
      {{"weights", {0.4951, 0, 0.5108, 0.4887}}, {"out", {0.0193, 0.0122, -0.0337, -0.0267, -0.0256, 0.0591}}});
}

TEST(Examples, Plain) {
  const AttendCase given = example("plain");
  const Numbers weights = {0.2693, 0.3289, 0.4018, 0.1814, 0.3052, 0.5134, 0.1152, 0.2668, 0.6180};
  expect_steps("plain", given, {{"weights", weights}});
  const Walkthrough walkthrough = attend(given, {});
  const Numbers heads = test::numbers_of(walkthrough, "heads");
  test::expect_rounded({heads[0], heads[4], heads[8]}, {0.5530, 0.6328, 0.7011}, "plain, first column of heads");
  ASSERT_EQ(walkthrough.comparisons.size(), 3U);
  const auto& built = walkthrough.comparisons[2].values.values();
  test::expect_rounded({built.begin(), built.end()}, weights, "plain, as it is built up");
  EXPECT_TRUE(walkthrough.comparisons[2].right);
  EXPECT_FALSE(walkthrough.comparisons[0].right || walkthrough.comparisons[1].right);
}

TEST(Examples, ThreeMasks) {
  const Walkthrough walkthrough = attend(example("three-masks"), {});
  ASSERT_EQ(walkthrough.comparisons.size(), 5U);
  const auto expect = [&](size_t n, const Numbers& numbers, size_t rows) {
    const Comparison& each = walkthrough.comparisons[n];
    const auto columns = static_cast<size_t>(each.values.shape()[1]);
    const auto values = each.values.values().first(rows * columns);
    test::expect_rounded({values.begin(), values.end()}, numbers, each.title);
  };
  expect(0, {0.2693, 0, 0, 0.1814, 0.3052, 0}, 2);
  expect(1, {0.3675, 0.3163, 0.3163, 0.2953, 0.4967, 0.2081}, 2);
  expect(2, {1, 0, 0, 0.3729, 0.6271, 0}, 2);
  expect(3, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}, 4);
  expect(4, {1, 0, 0, 0.5, 0.5, 0, 0.3333, 0.3333, 0.3333}, 3);
  EXPECT_NEAR(static_cast<double>(walkthrough.comparisons[0].row_sums[0]), 0.27, 0.005);
  EXPECT_FALSE(walkthrough.comparisons[0].right);
  EXPECT_FALSE(walkthrough.comparisons[1].right);
  EXPECT_TRUE(walkthrough.comparisons[2].right);
  EXPECT_EQ(walkthrough.comparisons[2].values.view<2>()(0, 1), 0.0F);  // exactly
}

TEST(Examples, Cats) {
  expect_steps("cats", example("cats"),
               {{"scores", {0.6, 1.4, 2.2, 0.5, 1.14, 1.78}},
                {"scaled", {0.3, 0.7, 1.1, 0.25, 0.57, 0.89}},
                {"weights", {0.2120, 0.3162, 0.4718, 0.2340, 0.3222, 0.4438}},
                {"heads", {0.6039, 0.7039, 0.8039, 0.9039, 0.5839, 0.6839, 0.7839, 0.8839}}});
}

TEST(Examples, Gustan) {
  expect_steps("gustan", example("gustan"),
               {{"scaled", {1.0, 0.8, 0.9, 1.1}},
                {"weights", {1, 0, 0.4502, 0.5498}},
                {"heads", {0.1, 0.2, 0.3, 0.4, 0.3199, 0.4199, 0.5199, 0.6199}}});
}

TEST(Examples, TwoHeadsHaveTheShapesOfTheirSteps) {
  const AttendCase given = example("two-heads");
  const Walkthrough walkthrough = attend(given, {});
  const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
      {"x", {1, 2, 8}},         {"q", {1, 2, 2, 4}},      {"k", {1, 2, 2, 4}},      {"v", {1, 2, 2, 4}},
      {"scores", {1, 2, 2, 2}}, {"scaled", {1, 2, 2, 2}}, {"masked", {1, 2, 2, 2}}, {"weights", {1, 2, 2, 2}},
      {"heads", {1, 2, 2, 4}},  {"concat", {1, 2, 8}},    {"out", {1, 2, 8}}};
  ASSERT_EQ(walkthrough.steps.size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(walkthrough.steps[i].name, shapes[i].first);
    EXPECT_EQ(walkthrough.steps[i].values.shape(), shapes[i].second) << shapes[i].first;
  }
  // W_Q of head 0 rises from [0.1 … 0.4] to [0.5 … 0.8] over its 8 rows.
  const View<const float, 2> w_q = given.layer.parameters().q;  // [outputs, inputs]
  EXPECT_FLOAT_EQ(w_q(0, 0), 0.1F);
  EXPECT_FLOAT_EQ(w_q(3, 0), 0.4F);
  EXPECT_FLOAT_EQ(w_q(0, 7), 0.5F);
  EXPECT_FLOAT_EQ(w_q(3, 7), 0.8F);
  // The others are 0.1 · cos(i + 2j + 3·head + matrix).
  EXPECT_FLOAT_EQ(w_q(4 + 1, 5), static_cast<float>(0.1 * std::cos(5.0 + 2.0 + 3.0)));
  EXPECT_FLOAT_EQ(given.layer.parameters().k(2, 3), static_cast<float>(0.1 * std::cos(3.0 + 4.0 + 1.0)));
  // x W_Q of head 0, from the definition.
  double first = 0.0;
  for (int i = 0; i < 8; ++i) first += 0.1 * (i + 1) * (0.1 + 0.4 * i / 7.0);
  EXPECT_NEAR(test::numbers_of(walkthrough, "q")[0], first, 1e-6);
}

TEST(Examples, EightHeadsAreOfARealSize) {
  const Walkthrough walkthrough = attend(example("eight-heads"), {});
  EXPECT_EQ(walkthrough.sizes.heads, 8);
  EXPECT_EQ(walkthrough.sizes.d_k, 128);
  EXPECT_EQ(test::numbers_of(walkthrough, "out").size(), 4U * 1024U);
  EXPECT_LT(*walkthrough.checks.ref_max_abs_diff, 1e-5);
  EXPECT_TRUE(walkthrough.checks.from_projections);
}

TEST(Examples, WidthsHaveAValueWidthOfTheirOwn) {
  const AttendCase given = example("widths");
  const AttendSizes sizes = sizes_of(given);
  EXPECT_EQ(sizes.d_k, 4);
  EXPECT_EQ(sizes.d_v, 3);
  const Layer& layer = given.layer;
  EXPECT_EQ(layer.in.count() + layer.out.count(), 168);
  EXPECT_LT(*attend(given, {}).checks.ref_max_abs_diff, 1e-6);
}

TEST(Examples, EveryOneHasATitleANoteAndNumbersThatAgreeWithDouble) {
  EXPECT_EQ(example_names().size(), 12U);
  for (const ExampleName& each : example_names()) {
    const AttendCase given = example(each.name);
    EXPECT_EQ(given.title, each.name + ": " + each.about);
    EXPECT_FALSE(given.notes.empty()) << each.name;
    const Walkthrough walkthrough = attend(given, {});
    ASSERT_TRUE(walkthrough.checks.ref_max_abs_diff) << each.name;
    EXPECT_LT(*walkthrough.checks.ref_max_abs_diff, 1e-5) << each.name;
    EXPECT_EQ(walkthrough.checks.row_sum_max_err.has_value(), each.name != "sigmoid") << each.name;
    EXPECT_EQ(walkthrough.checks.rows_without_key, 0) << each.name;
  }
}

TEST(Examples, AnUnknownNameIsRefusedWithThoseThereAre) {
  test::expect_error([] { example("dogs"); }, {"there is no example 'dogs'", "cats", "eight-heads"});
}

}  // namespace
}  // namespace heed::explain
