#include "heed/explain/slips.h"

#include <gtest/gtest.h>

#include "heed/explain/check_file.h"

namespace heed::explain {
namespace {

// The kinds of remarks on a file.
std::vector<std::string> kinds(const std::string& text) {
  std::vector<std::string> kinds;
  for (const Remark& each : grade(parse_check_file(text, "test.toml")).remarks) kinds.push_back(each.kind);
  return kinds;
}

using Kinds = std::vector<std::string>;

const std::string kLayer = R"(
x = [[-0.1, 0.1, 0.3], [0.4, -1.1, -0.3]]
W_Q = [[-0.35, 0.51, 0.50], [0.36, -0.47, -0.29], [-0.51, -0.14, -0.56]]
W_K = [[-0.49, -0.68, 0.18], [-0.44, -0.46, 0.18], [0.07, -0.10, 0.44]]
W_V = [[-0.41, 0.39, -0.65], [-0.40, -0.07, -0.34], [-0.55, -0.13, -0.29]]
W_O = [[-0.36, -0.08, 0.32], [0.27, 0.05, 0.15], [-0.05, -0.28, 0.05]]
[claimed]
)";

TEST(Slips, RightNumbersGetNoRemark) {
  EXPECT_EQ(kinds(kLayer + "q = [[-0.0820, -0.1400, -0.2470], [-0.3830, 0.7630, 0.6870]]\n" +
                  "weights = [[0.4944, 0.5056], [0.5220, 0.4780]]\nout = [[-0.0290, -0.0273, 0.0634], []]\n"),
            Kinds{});
}

TEST(Slips, OutWithoutWO) {
  EXPECT_EQ(kinds(kLayer + "out = [[0.1419, 0.0955, 0.0739], [0.1252, 0.0856, 0.0668]]"), Kinds{"no_w_o"});
}

TEST(Slips, ATransposedWeight) {
  EXPECT_EQ(kinds(kLayer + "q = [[0.236, -0.170, -0.131], [-0.851, 0.748, 0.118]]"), Kinds{"transposed"});
}

TEST(Slips, TheNumbersOfAnotherStep) {
  EXPECT_EQ(kinds(kLayer + "q = [[0.0260, -0.0080, 0.1320], []]"), Kinds{"other_step"});
  const Grading grading = grade(parse_check_file(kLayer + "v = [[], [-0.025, -0.024, 0.056]]", "test.toml"));
  ASSERT_EQ(grading.remarks.size(), 1U);
  EXPECT_EQ(grading.remarks[0].text, "v, row 1: these are the numbers of out");
}

TEST(Slips, FewDigitsProveNothing) {
  EXPECT_EQ(kinds("scores = [[0.1, 0.4]]\nd_k = 4\n[claimed]\nscaled = [[0.10, 0.40]]"), Kinds{"not_scaled"});
  EXPECT_EQ(kinds("scores = [[0.0, 0.4]]\nd_k = 100\n[claimed]\nscaled = [[0.0, 0.4]]"), Kinds{});
}

const std::string kScores = "q = [[1.0, 2.0, 0.0, 1.0]]\nk = [[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 1.0]]\n";

// scores 2, 3; scaled 1, 1.5; weights 0.3775, 0.6225
TEST(Slips, ScalingForgottenTwiceOrLate) {
  EXPECT_EQ(kinds(kScores + "[claimed]\nscaled = [[2.0, 3.0]]"), Kinds{"not_scaled"});
  EXPECT_EQ(kinds(kScores + "[claimed]\nscores = [[1.0, 1.5]]"), Kinds{"scaled_twice"});
  EXPECT_EQ(kinds(kScores + "[claimed]\nweights = [[0.2689, 0.7311]]"), Kinds{"not_scaled"});
  EXPECT_EQ(kinds(kScores + "[claimed]\nweights = [[0.1345, 0.3655]]"), (Kinds{"row_sum", "scaled_late"}));
}

TEST(Slips, WeightsOfTheOtherNormaliser) {
  EXPECT_EQ(kinds(kScores + "[claimed]\nweights = [[0.7311, 0.8176]]"), (Kinds{"row_sum", "sigmoid"}));
  EXPECT_EQ(kinds(kScores + "normalizer = \"sigmoid\"\n[claimed]\nweights = [[0.3775, 0.6225]]"), Kinds{"softmax"});
  // From the claimed scores as well: sigmoid of 2.
  EXPECT_EQ(kinds(kScores + "[claimed]\nscaled = [[2.00, 2.00]]\nweights = [[0.8808, 0.8808]]"),
            (Kinds{"row_sum", "sigmoid"}));
}

const std::string kMasked = "scaled = [[0.5, 1.5], [0.2, 0.7]]\nmask = \"causal\"\n[claimed]\n";

TEST(Slips, MasksAppliedInTheWrongPlace) {
  EXPECT_EQ(kinds(kMasked + "weights = [[0.2689, 0], [0.3775, 0.6225]]"), (Kinds{"row_sum", "mask_late"}));
  EXPECT_EQ(kinds(kMasked + "weights = [[0.2689, 0.7311], [0.3775, 0.6225]]"), Kinds{"no_mask"});
  EXPECT_EQ(kinds(kMasked + "weights = [[0.6225, 0.3775], [0.3775, 0.6225]]"), Kinds{"mask_times"});
}

TEST(Slips, ALargeNumberIsNotMinusInfinity) {
  EXPECT_EQ(kinds(kMasked + "masked = [[0.5, -1e9], [0.2, 0.7]]"), Kinds{"not_infinite"});
  EXPECT_EQ(kinds(kMasked + "masked = [[0.5, -inf], [0.2, 0.7]]"), Kinds{});
}

TEST(WeightLaws, RowsOfSoftmaxSumToOne) {
  const std::string scaled = "scaled = [[1.0, 2.0, 3.0]]\n[claimed]\n";  // 0.0900, 0.2447, 0.6652
  EXPECT_EQ(kinds(scaled + "weights = [[0.09, 0.24, 0.67]]"), Kinds{});
  EXPECT_EQ(kinds(scaled + "weights = [[0.09, 0.24, 0.66]]"), Kinds{});  // cut, within a digit each
  EXPECT_EQ(kinds(scaled + "weights = [[0.10, 0.26, 0.68]]"), Kinds{"row_sum"});
  EXPECT_EQ(kinds(scaled + "weights = [[0.10, 0.26, \"?\"]]"), Kinds{});
  EXPECT_EQ(kinds("sinks = [1.0]\n" + scaled + "weights = [[0.0826, 0.2245, 0.6103]]"), Kinds{});
  EXPECT_EQ(kinds("normalizer = \"sigmoid\"\n" + scaled + "weights = [[0.73, 0.88, 0.95]]"), Kinds{});
}

TEST(WeightLaws, ALargerScoreHasTheLargerWeight) {
  const std::string scaled = "scaled = [[0.010, 0.012, 0.014]]\n[claimed]\n";
  EXPECT_EQ(kinds(scaled + "weights = [[0.4, 0.3, 0.3]]"), Kinds{"order"});
  EXPECT_EQ(kinds(scaled + "weights = [[0.33, 0.33, 0.33]]"), Kinds{});
  EXPECT_EQ(kinds(scaled + "weights = [[0.33, 0.3, 0.3]]"), Kinds{});  // other digits: rounding may do that
  // In the claimed scores the order is another one: the weights may follow them.
  EXPECT_EQ(kinds(scaled + "scaled = [[0.9, 0.5, 0.1]]\nweights = [[0.47, 0.32, 0.21]]"), Kinds{});
}

// Rounding explains near numbers; it cannot explain a broken law.
TEST(WeightLaws, InABrokenRowNearIsWrong) {
  const Grading grading = grade(parse_check_file(
      "scaled = [[0.010, 0.012, 0.014], [0.0, 0.0, 0.0]]\n[claimed]\nweights = [[0.5, 0.3, 0.2], [0.5, 0.3, 0.3]]",
      "t"));
  std::vector<Verdict> verdicts;
  for (const GradedNumber& each : grading.steps[0].numbers) verdicts.push_back(each.verdict);
  EXPECT_EQ(verdicts, (std::vector<Verdict>{Verdict::wrong, Verdict::right, Verdict::wrong,  //
                                            Verdict::near, Verdict::right, Verdict::right}));
}

}  // namespace
}  // namespace heed::explain
