#include "heed/explain/grade.h"

#include <gtest/gtest.h>

#include "heed/explain/check_file.h"

namespace heed::explain {
namespace {

Grading grade_text(const std::string& text) { return grade(parse_check_file(text, "test.toml")); }

std::vector<std::string> verdicts(const Grading& grading, AttentionStep step) {
  std::vector<std::string> names;
  for (const GradedNumber& each : grading.find(step)->numbers) names.emplace_back(verdict_name(each.verdict));
  return names;
}

using Names = std::vector<std::string>;

// scores 2, 4; scaled 1, 2; weights 0.2689, 0.7311; heads 7.31
const std::string kInputs = R"(
q = [[1.0, 1.0, 1.0, 1.0]]
k = [[0.5, 0.5, 0.5, 0.5], [1.0, 1.0, 1.0, 1.0]]
v = [[0.0], [10.0]]
[claimed]
)";

TEST(Grade, EachNumberByItsOwnDigits) {
  const Grading grading = grade_text(kInputs + "weights = [[0.27, 0.7311]]\nheads = 7.30\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"right", "right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"near"}));
  EXPECT_EQ(grading.numbers(), 3);
  EXPECT_EQ(grading.count(Verdict::right), 2);
  EXPECT_EQ(grading.first_wrong(), nullptr);
}

TEST(Grade, OneSlipIsCountedOnce) {
  // scores are wrong; everything behind them follows from them: scaled 2, 2; weights 0.5, 0.5; heads 5.
  const Grading grading =
      grade_text(kInputs + "scores = [[4.0, 4.0]]\nscaled = [[2.0, 2.0]]\nweights = [[0.50, 0.50]]\n" +
                 "heads = [[5.0]]\nconcat = [[5.0]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::scores), (Names{"wrong", "right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::scaled), (Names{"follows", "right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"follows", "follows"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"follows"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::concat), (Names{"follows"}));
  EXPECT_EQ(grading.count(Verdict::wrong), 1);
  EXPECT_EQ(grading.first_wrong_step()->step, AttentionStep::scores);
  EXPECT_EQ(grading.first_wrong()->column, 0);
}

TEST(Grade, ASecondSlipIsCountedToo) {
  const Grading grading = grade_text(kInputs + "scores = [[4.0, 4.0]]\nweights = [[0.50, 0.50]]\nheads = [[6.0]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"follows", "follows"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"wrong"}));
  EXPECT_EQ(grading.find(AttentionStep::heads)->numbers[0].carried, 5.0);
}

TEST(Grade, ANumberThatAgreesWithTheInputsIsRightWhateverWasClaimedBefore) {
  const Grading grading = grade_text(kInputs + "scores = [[4.0, 4.0]]\nweights = [[0.27, 0.73]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"right", "right"}));
  ASSERT_EQ(grading.remarks.size(), 1U);
  EXPECT_EQ(grading.remarks[0].kind, "not_carried");
  EXPECT_EQ(
      grading.remarks[0].text,
      "weights, row 0, column 0: 0.27 agrees with the inputs, though the claimed scores would give 0.5000 (and so "
      "for 1 more)");
}

// Weights of one digit are right, but heads of three digits cannot come from them: no earlier slip excuses it.
TEST(Grade, RoundedTooEarlyIsWrongWithTheReason) {
  const Grading grading = grade_text(kInputs + "weights = [[0.3, 0.7]]\nheads = [[7.00]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"right", "right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"wrong"}));
  ASSERT_EQ(grading.remarks.size(), 1U);
  EXPECT_EQ(grading.remarks[0].kind, "rounded_early");
  EXPECT_EQ(grading.remarks[0].text,
            "heads, row 0, column 0: 7.00 is what the claimed weights gives, with too few digits for it; it is 7.3106");
}

TEST(Grade, ASlipReachesAcrossStepsThatAreNotClaimed) {
  const Grading grading = grade_text(kInputs + "k = [[1.0, 1.0, 1.0, 1.0], []]\nheads = [[5.0]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::k), (Names{"wrong", "wrong", "wrong", "wrong"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"follows"}));
}

TEST(Grade, AWholeClaimThatIsRightEndsAnEarlierSlip) {
  // k is wrong, the weights are right: heads cannot blame k.
  const Grading grading =
      grade_text(kInputs + "k = [[1.0, 1.0, 1.0, 1.0], []]\nweights = [[0.3, 0.7]]\nheads = [[7.00]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::heads), (Names{"wrong"}));
}

TEST(Grade, WhatIsLeftOutIsCarriedFromTheClaim) {
  // Only the first score is claimed; the second stays 4.
  const Grading grading =
      grade_text(kInputs + "scores = [[4.0, \"?\"]]\nscaled = [[\"?\", 2.0]]\nweights = [[0.50, 0.50]]\n");
  EXPECT_EQ(grading.numbers(), 4);
  EXPECT_EQ(verdicts(grading, AttentionStep::scaled), (Names{"right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"follows", "follows"}));
}

TEST(Grade, WholeNumbersAmongWeightsAreTakenToOneDecimal) {
  const std::string inputs = "scaled = [[0.0, 0.1]]\n[claimed]\n";
  EXPECT_EQ(grade_text(inputs + "weights = [[0, 1]]").count(Verdict::wrong), 2);
  const std::string far = "scaled = [[0.0, 9.0]]\n[claimed]\n";
  EXPECT_EQ(grade_text(far + "weights = [[0, 1]]").count(Verdict::right), 2);
  // Elsewhere a whole number is what it says: within a half.
  EXPECT_EQ(grade_text(kInputs + "heads = 7").count(Verdict::right), 1);
}

TEST(Grade, AHiddenKeyHasWeightZeroAndNothingNearIt) {
  const std::string inputs = "scaled = [[1.0, 1.0], [1.0, 1.0]]\nmask = \"causal\"\n[claimed]\n";
  EXPECT_EQ(verdicts(grade_text(inputs + "weights = [[1.00, 0.00], [0.50, 0.50]]"), AttentionStep::weights),
            (Names{"right", "right", "right", "right"}));
  EXPECT_EQ(verdicts(grade_text(inputs + "weights = [[0.99, 0.01], []]"), AttentionStep::weights),
            (Names{"near", "wrong"}));
}

TEST(Grade, SeveralHeadsAreJudgedEachOnItsOwn) {
  const Grading grading = grade_text(R"(
heads = 2
q = [[1.0, 2.0]]
k = [[[1.0]], [[1.0]]]
v = [[3.0, 4.0]]
[claimed]
scores = [[[1.0]], [[3.0]]]
weights = [[[1]], []]
heads = [[[3.0]], [[4.0]]]
concat = [[3.0, 4.0]]
)");
  EXPECT_EQ(verdicts(grading, AttentionStep::scores), (Names{"right", "wrong"}));
  EXPECT_EQ(grading.first_wrong()->head, 1);
  EXPECT_EQ(grading.find(AttentionStep::scores)->shape, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(verdicts(grading, AttentionStep::weights), (Names{"right"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::concat), (Names{"right", "right"}));
}

TEST(Grade, InputsCopiedWronglyAreFound) {
  const Grading grading = grade_text(kInputs + "q = [[1.0, 1.0, 1.0, 2.0]]\nscores = [[2.5, 5.0]]\n");
  EXPECT_EQ(verdicts(grading, AttentionStep::q), (Names{"right", "right", "right", "wrong"}));
  EXPECT_EQ(verdicts(grading, AttentionStep::scores), (Names{"follows", "follows"}));
}

}  // namespace
}  // namespace heed::explain
