// The program as users meet it: on a terminal, in a pipe, with a full disk, in another locale.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/exit_codes.h"
#include "tests/cli/json_schema.h"
#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;
using Words = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

Ended heed_process(const Words& arguments, const Variables& environment = {}, const std::string& out_path = "") {
  Words words{"heed"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_process({words, environment, out_path});
}

Ended heed_on_terminal(const Words& arguments, const Variables& environment, int columns = 80) {
  Words words{"heed"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run_on_terminal({words, environment}, columns);
}

// What completion offers after these words.
Words offered(Words words, const std::string& typed) {
  words.insert(words.begin(), {"__complete", "--"});
  words.push_back(typed);
  Words names;
  std::istringstream lines(heed_process(words).out);
  for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('\t')));
  return names;
}

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Every command that has none below it, so that it ends soon: with its smallest example, or as a list, where it can.
void collect_commands(const Words& path, std::vector<Words>& all) {
  const bool takes_names = path == Words{"help"} || path == Words{"completion"};
  Words below = takes_names ? Words() : offered(path, "");
  below.erase(std::remove(below.begin(), below.end(), ":files"), below.end());
  if (below.empty()) {
    all.push_back(path);
    const Words options = offered(path, "--");
    if (has(options, "--example")) {
      all.back().insert(all.back().end(), {"--example", "one-token"});
    } else if (has(options, "--list")) {
      all.back().emplace_back("--list");
    }
  }
  for (const std::string& name : below) {
    Words longer = path;
    longer.push_back(name);
    collect_commands(longer, all);
  }
}

std::vector<Words> every_command() {
  std::vector<Words> all;
  collect_commands({}, all);
  return all;
}

bool has_color(const std::string& text) { return text.find("\x1b[") != std::string::npos; }

// Like `>> log`: what the log had stays.
TEST(Program, FilesOnStandardOutputAreAppendedToALog) {
  const test::TemporaryDirectory directory;
  const std::string log = directory.file("log", "old\n");
  for (const char* name : {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}) {
    const Ended ended = run_process(
        {{"sh", "-c", std::string(HEED_PROGRAM " attend --example cats --html ") + name + " >> " + log}, {}});
    EXPECT_EQ(ended.exit, kOk) << ended.err;
  }
  const std::string bytes = test::bytes_of(log);
  EXPECT_EQ(bytes.rfind("old\n<!doctype html>", 0), 0U) << bytes.substr(0, 100);
  size_t pages = 0;
  for (size_t at = bytes.find("<!doctype html>"); at != std::string::npos; at = bytes.find("<!doctype html>", at + 1)) {
    ++pages;
  }
  EXPECT_EQ(pages, 3U);
  EXPECT_EQ(directory.names(), Words{"log"});
}

TEST(Program, OnATerminalItHasColourUnlessTheUserSaysOtherwise) {
  EXPECT_TRUE(has_color(heed_on_terminal({"help"}, {{"TERM", "xterm"}}).out));
  EXPECT_FALSE(has_color(heed_on_terminal({"help"}, {{"TERM", "xterm"}, {"NO_COLOR", "1"}}).out));
  EXPECT_TRUE(has_color(heed_on_terminal({"help"}, {{"TERM", "xterm"}, {"NO_COLOR", ""}}).out));
  EXPECT_FALSE(has_color(heed_on_terminal({"help"}, {{"TERM", "dumb"}}).out));
  EXPECT_TRUE(has_color(heed_on_terminal({"help", "--color=always"}, {{"TERM", "dumb"}, {"NO_COLOR", "1"}}).out));
  EXPECT_FALSE(has_color(heed_on_terminal({"help", "--color=never"}, {{"TERM", "xterm"}}).out));
  EXPECT_TRUE(has_color(heed_on_terminal({"bensh"}, {{"TERM", "xterm"}}).out));
}

TEST(Program, InAPipeItHasColourOnlyWhereItIsForced) {
  EXPECT_FALSE(has_color(heed_process({"help"}, {{"TERM", "xterm"}}).out));
  EXPECT_TRUE(has_color(heed_process({"help"}, {{"FORCE_COLOR", "1"}}).out));
  EXPECT_TRUE(has_color(heed_process({"help"}, {{"CLICOLOR_FORCE", "1"}}).out));
  EXPECT_FALSE(has_color(heed_process({"help"}, {{"FORCE_COLOR", "1"}, {"NO_COLOR", "1"}}).out));
}

TEST(Program, HelpFitsTheTerminal) {
  const auto longest = [](const std::string& text) {
    size_t most = 0;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) most = std::max(most, line.size());
    return most;
  };
  const Variables plain{{"TERM", "dumb"}};
  EXPECT_LE(longest(heed_on_terminal({"bench", "attention", "--help"}, plain, 60).out), 61U);  // with the \r
  EXPECT_GT(longest(heed_on_terminal({"bench", "attention", "--help"}, plain, 110).out), 80U);
}

TEST(Program, NoCommandWaitsForInputAndPipesGetNeitherEscapesNorCarriageReturns) {
  const std::vector<Words> all = every_command();
  EXPECT_GE(all.size(), 7U);
  for (const Words& arguments : all) {
    const Ended ended = heed_process(arguments, {{"LC_ALL", "C.UTF-8"}, {"TERM", "xterm"}});
    SCOPED_TRACE(::testing::PrintToString(arguments));
    EXPECT_LT(ended.exit, 8) << ended.err;
    EXPECT_NE(ended.out + ended.err, "");
    EXPECT_EQ((ended.out + ended.err).find_first_of("\x1b\r"), std::string::npos);
  }
}

TEST(Program, InTheCLocaleEveryCommandAndItsHelpAreAscii) {
  std::vector<Words> all = every_command();
  for (const Words& arguments : every_command()) {
    all.push_back(arguments);
    all.back().push_back("--help");
  }
  for (const Words& arguments : all) {
    const Ended ended = heed_process(arguments, {{"LC_ALL", "C"}});
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const std::string text = ended.out + ended.err;
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char letter) { return letter > 0; })) << text;
  }
}

TEST(Program, WithJsonEveryAnswerAndEveryErrorIsOneDocument) {
  for (Words arguments : every_command()) {
    if (!has(offered(arguments, "--"), "--json")) continue;
    arguments.push_back("--json");
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Ended ended = heed_process(arguments);
    ASSERT_TRUE(Json::accept(ended.out)) << ended.out;
    const Json answer = Json::parse(ended.out);
    EXPECT_EQ(answer.contains("schema"), ended.exit == kOk || ended.exit == kCheckFailed) << ended.out;
    EXPECT_EQ(answer.contains("schema") ? answer_mistake(answer) : schema_mistake("error", answer), "") << ended.out;
    arguments.push_back("--no-such-flag");
    const Ended refused = heed_process(arguments);
    EXPECT_EQ(refused.exit, kUsage);
    ASSERT_TRUE(Json::accept(refused.out)) << refused.out;
    EXPECT_EQ(schema_mistake("error", Json::parse(refused.out)), "");
    const Json error = Json::parse(refused.out)["error"];
    EXPECT_EQ(error["exit"], kUsage);
    EXPECT_EQ(error["code"], "usage.unknown_argument");
    EXPECT_EQ(refused.err.rfind("heed: error: " + error["message"].get<std::string>() + "\n", 0), 0U) << refused.err;
  }
}

TEST(Program, EndsQuietlyWhenTheReaderGoesAway) {
  // head ends after a line; what follows is more than a pipe holds. The caller may have had the signal ignored.
  for (const std::string before : {"", "trap '' PIPE; "}) {
    const std::string many = "while " HEED_PROGRAM " help --markdown || exit $?; do :; done";
    const Ended ended = run_process({{"bash", "-c", before + "set -o pipefail; (" + many + ") | head -1"}, {}});
    EXPECT_EQ(ended.out, "# The command line\n");
    EXPECT_EQ(ended.err, "");
    EXPECT_EQ(ended.exit, 128 + SIGPIPE);
  }
}

TEST(Program, AFullDiskIsAFailureWithAReason) {
  const Ended ended = heed_process({"help"}, {}, "/dev/full");
  EXPECT_EQ(ended.exit, kFailure);
  EXPECT_EQ(ended.err,
            "heed: error: the answer could not be written to standard output: No space left on device\n"
            "  hint: is the disk full, or standard output closed?\n");
}

TEST(Program, AClosedOutputIsAFailureWithAReason) {
  const Ended ended = run_process({{"sh", "-c", HEED_PROGRAM " help >&-"}, {}});
  EXPECT_EQ(ended.exit, kFailure);
  EXPECT_EQ(ended.err.rfind("heed: error: the answer could not be written to standard output", 0), 0U) << ended.err;
}

TEST(Program, AnErrorIsAloneOnStandardError) {
  const Ended ended = heed_process({"bench", "attention", "--threads", "0"});
  EXPECT_EQ(ended.exit, kUsage);
  EXPECT_EQ(ended.out, "");
  EXPECT_EQ(ended.err, "heed: error: --threads is 0\n  hint: give 1 to 1024\n");
}

}  // namespace
}  // namespace heed::cli
