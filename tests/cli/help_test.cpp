#include <gtest/gtest.h>

#include <algorithm>

#include "cli/exit_codes.h"
#include "tests/cli/in_process.h"

namespace heed::cli {
namespace {

TEST(Help, IsTheSameAsTheFlag) {
  EXPECT_EQ(heed({"help"}).out, heed({"--help"}).out);
  EXPECT_EQ(heed({"help", "bench"}).out, heed({"bench", "--help"}).out);
  EXPECT_EQ(heed({"help", "bench", "attention"}).out, heed({"bench", "attention", "--help"}).out);
}

TEST(Help, ListsEveryExitCode) {
  const Result result = heed({"help", "exit-codes"});
  EXPECT_EQ(result.exit, kOk);
  for (const auto& [code, meaning] : kExitCodes) {
    EXPECT_NE(result.out.find(std::to_string(code) + "  " + meaning + "\n"), std::string::npos) << code;
  }
}

TEST(Help, ProposesTheNearestTopic) {
  expect_usage_error({"help", "exit-code"}, "there is no help on 'exit-code'", "did you mean 'exit-codes'?");
  expect_usage_error({"help", "bench", "atention"}, "there is no help on 'atention'", "did you mean 'attention'?");
  expect_usage_error({"help", "bench", "probe", "more"}, "there is no help on 'more'",
                     "heed bench probe has no commands of its own");
}

TEST(Help, StaysWithinTheWidthOfTheTerminal) {
  const std::vector<std::string> attention{"bench", "attention", "--help"};
  for (const auto& [arguments, width] :
       std::vector<std::pair<std::vector<std::string>, int>>{{attention, 40},
                                                             {attention, 60},
                                                             {attention, 110},
                                                             {{"--help"}, 80},
                                                             {{"attend", "--help"}, 80},
                                                             {{"check", "--help"}, 80},
                                                             {{"doctor", "--help"}, 80},
                                                             {{"completion", "--help"}, 80},
                                                             {{"help", "exit-codes"}, 100}}) {
    Terminal narrow;
    narrow.width = width;
    std::istringstream lines(heed(arguments, {"", narrow}).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), width) << line;
  }
}

TEST(Help, SaysWhatAnOptionTakes) {
  const std::string text = heed({"attend", "--help"}).out;
  for (const char* flag : {"--example NAME", "--rows A:B", "--top-k N", "--digits N", "--window L,R", "--scale X",
                           "--layout bthd|bhtd", "--out FILE", "--step NAME"}) {
    EXPECT_NE(text.find(std::string("  ") + flag + " "), std::string::npos) << flag;
  }
}

TEST(Help, SaysWhatIsAcceptedEverywhereOnce) {
  const std::string text = heed({"bench", "attention", "--help"}).out;
  for (const char* flag : {"-h, --help", "-V, --version", "--color auto|always|never", "-q, --quiet"}) {
    const size_t at = text.find(flag);
    ASSERT_NE(at, std::string::npos) << flag;
    EXPECT_EQ(text.find(flag, at + 1), std::string::npos) << flag;
  }
}

}  // namespace
}  // namespace heed::cli
