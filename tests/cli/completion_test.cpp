// Completion: what fits, and the scripts inside the shells.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/in_process.h"
#include "tests/cli/process.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

// The lines that `heed __complete -- words` prints, without what they are about.
Words offered(Words words) {
  words.insert(words.begin(), {"__complete", "--"});
  const Result result = heed(words);
  EXPECT_EQ(result.exit, kOk);
  EXPECT_EQ(result.err, "");
  Words names;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('\t')));
  return names;
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(Completion, OffersCommandsAndNotTheHiddenOne) {
  EXPECT_EQ(offered({"be"}), (Words{"bench"}));
  EXPECT_EQ(offered({"bench", ""}), (Words{"attention", "decode", "matmul", "train", "probe"}));
  EXPECT_FALSE(has(offered({""}), "__complete"));
  EXPECT_EQ(offered({"completion", ""}), (Words{"bash", "zsh", "fish"}));
  EXPECT_TRUE(has(offered({"help", ""}), "exit-codes"));
}

TEST(Completion, OffersOptionsOfTheCommandAndThoseOfAll) {
  const Words words = offered({"bench", "attention", "--"});
  for (const char* name : {"--threads", "--isa", "--json", "--color", "--help", "--version"}) {
    EXPECT_TRUE(has(words, name)) << name;
  }
  EXPECT_EQ(offered({"bench", "attention", "--is"}), (Words{"--isa"}));
}

TEST(Completion, DoesNotOfferAnOptionAgainUnlessItMayBeRepeated) {
  const Words words = offered({"bench", "attention", "--isa", "avx2", "--case", "memory", "--"});
  EXPECT_FALSE(has(words, "--isa"));
  EXPECT_TRUE(has(words, "--case"));
}

TEST(Completion, OffersTheValuesOfAnOptionInEverySpelling) {
  EXPECT_EQ(offered({"bench", "attention", "--isa", ""}), (Words{"avx512", "avx2", "baseline"}));
  EXPECT_EQ(offered({"bench", "attention", "--isa=avx2"}), (Words{"--isa=avx2"}));
  EXPECT_EQ(offered({"bench", "attention", "--isa", "=", "b"}), (Words{"baseline"}));
  EXPECT_EQ(offered({"bench", "attention", "--isa", "="}), (Words{"avx512", "avx2", "baseline"}));
  EXPECT_EQ(offered({"--color", "a"}), (Words{"auto", "always"}));
  EXPECT_EQ(offered({"bench", "attention", "--case", "wind"}), (Words{"window"}));
  EXPECT_EQ(offered({"bench", "attention", "--threads", ""}), (Words{}));
}

TEST(Completion, OffersTheExamplesAndStepsOfAttend) {
  const Words examples = offered({"attend", "--example", ""});
  EXPECT_EQ(examples.size(), 12U);
  EXPECT_TRUE(has(examples, "cats"));
  EXPECT_EQ(offered({"attend", "--example=c"}), (Words{"--example=cross", "--example=cats"}));
  EXPECT_EQ(offered({"attend", "--step", "sca"}), (Words{"scaled"}));
  EXPECT_EQ(offered({"attend", "--step", "q,we"}), (Words{"q,weights"})) << "the next of a list";
  EXPECT_EQ(offered({"attend", "--step=q,we"}), (Words{"--step=q,weights"}));
}

TEST(Completion, AnswersAnythingAndNeverFails) {
  for (const Words& words : {Words{},
                             {"nonsense", ""},
                             {"--nonsense"},
                             {"-"},
                             {"--"},
                             {"--", "-"},
                             {"bench", "--=", "="},
                             {"=", "="},
                             {"\xff\xfe"},
                             {"bench", "attention", "--isa", "--isa", "--isa"}}) {
    offered(words);
  }
  EXPECT_EQ(heed({"__complete"}).exit, kOk);
}

TEST(Completion, RefusesUnknownShells) {
  expect_usage_error({"completion", "bsh"}, "SHELL does not know 'bsh'", "did you mean 'bash'?");
  expect_usage_error({"completion"}, "heed completion needs SHELL", "heed completion --help lists what it takes");
}

// What bash would insert for this line with the cursor at its end, one a line. Words are cut as bash cuts them.
std::string in_bash(const std::string& words, int cursor_word) {
  const std::string script = "source <(" HEED_PROGRAM " completion bash); COMP_WORDS=(" HEED_PROGRAM " " + words +
                             "); COMP_CWORD=" + std::to_string(cursor_word) +
                             "; _heed; printf '%s\\n' \"${COMPREPLY[@]}\"; complete -p heed >/dev/null";
  const Ended ended = run_process({{"bash", "-c", script}, {}});
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  return ended.out;
}

TEST(Completion, WorksInBash) {
  if (!has_program("bash")) GTEST_SKIP() << "bash is not here";
  EXPECT_EQ(in_bash("be", 1), "bench\n");
  EXPECT_EQ(in_bash("bench attention --isa av", 4), "avx512\navx2\n");
  EXPECT_EQ(in_bash("bench attention --isa = b", 5), "baseline\n");
  EXPECT_EQ(in_bash("bench ''", 2), "attention\ndecode\nmatmul\ntrain\nprobe\n");
}

TEST(Completion, TheZshScriptIsZsh) {
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not here; its script was not tried";
  const Ended ended = run_process({{"sh", "-c", HEED_PROGRAM " completion zsh | zsh -n /dev/stdin"}, {}});
  EXPECT_EQ(ended.exit, 0);
  EXPECT_EQ(ended.err, "");
  // The function, with what zsh's completion system offers replaced by a print.
  const std::string script =
      "compdef() { : }; _describe() { print -l -- ${(P)4} }; _files() { print files }; "
      "source <(" HEED_PROGRAM " completion zsh); words=(" HEED_PROGRAM " bench attention --isa av); CURRENT=5; _heed";
  EXPECT_EQ(run_process({{"zsh", "-f", "-c", script}, {}}).out, "avx512\navx2\n");
}

TEST(Completion, WorksInFish) {
  if (!has_program("fish")) GTEST_SKIP() << "fish is not here; its script was not tried";
  const std::string folder = std::string(HEED_PROGRAM).substr(0, std::string(HEED_PROGRAM).rfind('/'));
  const auto in_fish = [&](const std::string& line) {
    const std::string script =
        "set -x PATH " + folder + " $PATH; heed completion fish | source; complete -C '" + line + "'";
    return run_process({{"fish", "--no-config", "-c", script}, {{"HOME", ::testing::TempDir()}}});
  };
  EXPECT_EQ(in_fish("heed bench attention --isa b").out, "baseline\n");
  EXPECT_EQ(in_fish("heed benc").out.rfind("bench\t", 0), 0U);
  EXPECT_EQ(in_fish("heed be").err, "");
}

}  // namespace
}  // namespace heed::cli
