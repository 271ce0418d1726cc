// The printed examples of examples/notes/: their exact values, and which printed numbers are found to be what.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "heed/explain/check_file.h"

namespace heed::explain {
namespace {

WorkedExample notes(const std::string& name) {
  return read_check_file(std::string(HEED_NOTES_DIRECTORY) + "/" + name + ".toml");
}

// Each row of each claimed step: r right, c cut, n near, f follows, W wrong.
std::map<std::string, std::vector<std::string>> verdicts(const std::string& name) {
  std::map<std::string, std::vector<std::string>> result;
  const Grading grading = grade(notes(name));
  for (const GradedStep& step : grading.steps) {
    for (const GradedRow& row : rows_of(step)) {
      std::string letters;
      for (const GradedNumber* each : row.numbers) letters += "rcnfW"[static_cast<size_t>(each->verdict)];
      result[std::string(step_name(step.step))].push_back(letters);
    }
  }
  return result;
}

using Verdicts = std::map<std::string, std::vector<std::string>>;

std::vector<std::string> remark_kinds(const std::string& name) {
  std::vector<std::string> kinds;
  for (const Remark& each : grade(notes(name)).remarks)
    kinds.push_back(std::string(step_name(each.step)) + " " + each.kind);
  return kinds;
}

using Kinds = std::vector<std::string>;

// To the four places that the specification prints.
void expect_values(const Matrices& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.values.size(), expected.size());
  for (size_t n = 0; n < expected.size(); ++n) EXPECT_NEAR(got.values[n], expected[n], 0.50001e-4) << "at " << n;
}

TEST(Notes, ExactValuesOfTheLayer) {
  const StepValues one = notes("one-token").exact;
  expect_values(one[AttentionStep::scaled], {-0.0194});
  expect_values(one[AttentionStep::weights], {1.0});
  expect_values(one[AttentionStep::out], {0.0389, 0.0246, -0.0680});
  const StepValues self = notes("self").exact;
  expect_values(self[AttentionStep::q], {-0.0820, -0.1400, -0.2470, -0.3830, 0.7630, 0.6870});
  expect_values(self[AttentionStep::k], {0.0260, -0.0080, 0.1320, 0.2670, 0.2640, -0.2580});
  expect_values(self[AttentionStep::v], {-0.1640, -0.0850, -0.0560, 0.4410, 0.2720, 0.2010});
  expect_values(self[AttentionStep::scaled], {-0.0194, 0.0028, 0.0431, -0.0451});
  expect_values(self[AttentionStep::weights], {0.4944, 0.5056, 0.5220, 0.4780});
  expect_values(self[AttentionStep::heads], {0.1419, 0.0955, 0.0739, 0.1252, 0.0856, 0.0668});
  expect_values(self[AttentionStep::out], {-0.0290, -0.0273, 0.0634, -0.0253, -0.0244, 0.0562});
  const StepValues masked = notes("masked").exact;
  expect_values(masked[AttentionStep::weights], {1.0, 0.0, 0.5220, 0.4780});
  expect_values(masked[AttentionStep::out], {0.0389, 0.0246, -0.0680, -0.0253, -0.0244, 0.0562});
  const StepValues cross = notes("cross").exact;
  expect_values(cross[AttentionStep::q], {0.5220, -0.3910, -0.1630, 0.4040, -0.0980, 0.2690});
  expect_values(cross[AttentionStep::scaled], {-0.0028, 0.0452, 0.0270, 0.0073});
  expect_values(cross[AttentionStep::weights], {0.4880, 0.5120, 0.5049, 0.4951});
  expect_values(cross[AttentionStep::heads], {0.1457, 0.0978, 0.0756, 0.1355, 0.0917, 0.0712});
  expect_values(cross[AttentionStep::out], {-0.0298, -0.0279, 0.0651, -0.0276, -0.0262, 0.0607});
  expect_values(notes("self-sigmoid").exact[AttentionStep::weights], {0.4951, 0.5007, 0.5108, 0.4887});
}

TEST(Notes, ExactValuesWithoutProjections) {
  const StepValues cats = notes("cats").exact;
  expect_values(cats[AttentionStep::scores], {0.6, 1.4, 2.2, 0.5, 1.14, 1.78});
  expect_values(cats[AttentionStep::scaled], {0.3, 0.7, 1.1, 0.25, 0.57, 0.89});
  expect_values(cats[AttentionStep::weights], {0.2120, 0.3162, 0.4718, 0.2340, 0.3222, 0.4438});
  expect_values(cats[AttentionStep::heads], {0.6039, 0.7039, 0.8039, 0.9039, 0.5839, 0.6839, 0.7839, 0.8839});
  expect_values(notes("cats-512").exact[AttentionStep::weights], {0.3319, 0.3333, 0.3348, 0.3319, 0.3333, 0.3348});
  const StepValues gustan = notes("gustan").exact;
  expect_values(gustan[AttentionStep::weights], {1.0, 0.0, 0.4502, 0.5498});
  expect_values(gustan[AttentionStep::heads], {0.1, 0.2, 0.3, 0.4, 0.3199, 0.4199, 0.5199, 0.6199});
}

TEST(Notes, OneTokenPrintsHeadsAsOut) {
  EXPECT_EQ(verdicts("one-token"), (Verdicts{{"scaled", {"W"}}, {"weights", {"r"}}, {"out", {"WWn"}}}));
  EXPECT_EQ(remark_kinds("one-token"), Kinds{"out no_w_o"});
}

TEST(Notes, SelfHasAWrongRowOfVThatNothingUses) {
  EXPECT_EQ(verdicts("self"), (Verdicts{{"q", {"nnr"}},
                                        {"k", {"rnr"}},
                                        {"v", {"rrc", "WWW"}},
                                        {"scaled", {"rc", "rn"}},
                                        {"weights", {"rr", "rr"}},
                                        {"heads", {"rcr", "ccc"}},
                                        {"out", {"rnn", "rnn"}}}));
  EXPECT_EQ(remark_kinds("self"), (Kinds{"v other_step", "heads not_carried"}));
  // The printed weights times the printed v.
  const Grading grading = grade(notes("self"));
  const std::vector<GradedNumber>& heads = grading.find(AttentionStep::heads)->numbers;
  EXPECT_NEAR(heads[0].carried, -0.0886, 1e-9);
  EXPECT_NEAR(heads[1].carried, -0.0494, 1e-9);
  EXPECT_NEAR(heads[2].carried, 0.001, 1e-9);
}

TEST(Notes, SigmoidInTheFormulaSoftmaxInTheNumbers) {
  EXPECT_EQ(verdicts("self-sigmoid"), (Verdicts{{"weights", {"cn", "nc"}}}));
  EXPECT_EQ(remark_kinds("self-sigmoid"), Kinds{"weights softmax"});
}

TEST(Notes, MaskedCutsItsDigitsAndCopiesWQWrongly) {
  EXPECT_EQ(verdicts("masked"), (Verdicts{{"W_Q", {"W"}}, {"out", {"crc", "crc"}}}));
}

TEST(Notes, CrossHasAWrongSignInKAndGoesOnWithOtherNumbers) {
  EXPECT_EQ(verdicts("cross"), (Verdicts{{"k", {"W"}},
                                         {"scaled", {"rW", "WW"}},
                                         {"weights", {"rr", "nc"}},
                                         {"heads", {"rrc", "crr"}},
                                         {"out", {"WWW", "WWW"}}}));
  EXPECT_EQ(remark_kinds("cross"), (Kinds{"scaled not_carried", "out rounded_early"}));
}

TEST(Notes, CatsHasWrongScoresAndASecondSlipInHeads) {
  EXPECT_EQ(verdicts("cats"), (Verdicts{{"scores", {"WWW", "WWW"}},
                                        {"scaled", {"fff", "fff"}},
                                        {"weights", {"rrr", "nWr"}},
                                        {"heads", {"nnnn", "WWWW"}}}));
  EXPECT_EQ(remark_kinds("cats"), (Kinds{"scores scaled_twice", "weights not_carried"}));
  const Grading grading = grade(notes("cats"));
  const std::vector<GradedNumber>& heads = grading.find(AttentionStep::heads)->numbers;
  for (size_t n = 4; n < 8; ++n) EXPECT_NEAR(heads[n].carried, 0.56 + 0.1 * static_cast<double>(n - 4), 1e-9);
}

TEST(Notes, Cats512GivesLargerScoresSmallerWeights) {
  EXPECT_EQ(verdicts("cats-512"), (Verdicts{{"weights", {"Wrr", "WrW"}}}));
  EXPECT_EQ(remark_kinds("cats-512"), (Kinds{"weights order", "weights order"}));
}

TEST(Notes, GustanRoundsItsWeightsTooEarly) {
  EXPECT_EQ(verdicts("gustan"),
            (Verdicts{{"masked", {"rr", "rr"}}, {"weights", {"rr", "cn"}}, {"heads", {"rrrr", "WWWW"}}}));
  EXPECT_EQ(remark_kinds("gustan"), Kinds{"heads rounded_early"});
}

TEST(Notes, EqualScoresUnderACausalMaskAreAllRight) {
  EXPECT_EQ(verdicts("causal-ones"), (Verdicts{{"weights", {"rrr", "rrr", "rrr"}}}));
  EXPECT_EQ(remark_kinds("causal-ones"), Kinds{});
}

TEST(Notes, EveryFileIsAskedForHere) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_NOTES_DIRECTORY)) {
    files += entry.path().extension() == ".toml" ? 1 : 0;
  }
  EXPECT_EQ(files, 9U);
}

}  // namespace
}  // namespace heed::explain
