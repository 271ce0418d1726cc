// The examples of training do what their comments say.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/example_program.h"
#include "tests/support/temporary_directory.h"

namespace heed {
namespace {

using test::numbers_after;
using test::ProgramRun;
using test::run_example;

TEST(TrainClassifier, LearnsTheOrderAndTheLoadedModelHasIt) {
  const ProgramRun run = run_example("train_classifier");
  EXPECT_EQ(run.status, 0) << run.output;
  const std::vector<double> losses = numbers_after(run.output, "loss ");
  ASSERT_EQ(losses.size(), 5U) << run.output;
  EXPECT_LT(losses.back(), 0.2) << run.output;
  const std::vector<double> accuracy = numbers_after(run.output, "accuracy: ");
  ASSERT_EQ(accuracy.size(), 1U) << run.output;
  EXPECT_GT(accuracy[0], 95.0) << run.output;
}

TEST(TrainClassifier, IsTheListingOfTheReadme) {
  const std::string source = test::bytes_of(HEED_SOURCE_DIRECTORY "/examples/train_classifier.cpp");
  const std::string readme = test::bytes_of(HEED_SOURCE_DIRECTORY "/README.md");
  EXPECT_NE(readme.find("```cpp\n" + source + "```\n"), std::string::npos)
      << "copy examples/train_classifier.cpp to README.md";
}

TEST(OwnOp, GradientsAgreeWithCentralDifferences) {
  const ProgramRun run = run_example("own_op");
  EXPECT_EQ(run.status, 0) << run.output;
  const std::vector<double> difference = numbers_after(run.output, "within ");
  ASSERT_EQ(difference.size(), 1U) << run.output;
  EXPECT_LT(difference[0], 1e-3) << run.output;
}

TEST(OwnLayer, ListsItsParametersByPathAndLearns) {
  const ProgramRun run = run_example("own_layer");
  EXPECT_EQ(run.status, 0) << run.output;
  for (const char* name : {"in.weight ", "layers.0.norm.weight ", "layers.2.gate.bias ", "layers.2.scale "}) {
    EXPECT_NE(run.output.find(name), std::string::npos) << name << "\n" << run.output;
  }
  const std::vector<double> losses = numbers_after(run.output, "loss ");
  ASSERT_EQ(losses.size(), 5U) << run.output;
  EXPECT_GT(losses.front(), 0.5) << run.output;
  EXPECT_LT(losses.back(), 0.02) << run.output;
}

}  // namespace
}  // namespace heed
