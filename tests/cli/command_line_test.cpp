#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "heed/core/version.h"
#include "tests/cli/in_process.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;

TEST(CommandLine, NeedsACommand) {
  expect_usage_error({}, "heed needs a command", "heed --help lists what it takes");
  expect_usage_error({"bench"}, "heed bench needs a command", "heed bench --help lists what it takes");
}

TEST(CommandLine, ProposesTheNearestCommandFlagAndValue) {
  expect_usage_error({"bensh"}, "heed does not know 'bensh'", "did you mean 'bench'?");
  expect_usage_error({"bench", "atention"}, "heed bench does not know 'atention'", "did you mean 'attention'?");
  expect_usage_error({"bench", "attention", "--thread", "2"}, "heed bench attention does not know '--thread'",
                     "did you mean '--threads'?");
  expect_usage_error({"bench", "attention", "--thread=2"}, "heed bench attention does not know '--thread=2'",
                     "did you mean '--threads'?");
  expect_usage_error({"help", "--colour", "never"}, "heed help does not know '--colour'", "did you mean '--color'?");
  expect_usage_error({"help", "--color", "neve"}, "--color does not know 'neve'", "did you mean 'never'?");
  expect_usage_error({"help", "--color", "rainbow"}, "--color does not know 'rainbow'", "give auto, always or never");
}

TEST(CommandLine, RefusesValuesThatAreMissingRepeatedOrOfAnotherKind) {
  const std::string see_help = "heed bench attention --help lists what it takes";
  expect_usage_error({"bench", "attention", "--threads"}, "--threads needs a value", see_help);
  expect_usage_error({"bench", "attention", "--threads", "many"}, "--threads is 'many', which is not a whole number",
                     see_help);
  expect_usage_error({"bench", "attention", "--isa", "avx2", "--isa", "avx2"}, "--isa was given more than once",
                     "give it once");
  EXPECT_EQ(heed({"bench", "attention", "--list=perhaps"}).exit, kUsage);
}

// `--keep "$MASK"` where MASK is not set must not mean an attention without a mask.
TEST(CommandLine, EmptyValuesAreRefusedByEveryOptionOfEveryCommand) {
  std::vector<std::vector<std::string>> commands;
  for (const char* name : {"attend", "check", "doctor", "help", "completion"}) commands.push_back({name});
  for (const char* name : {"attention", "decode", "matmul", "probe"}) commands.push_back({"bench", name});
  int options = 0;
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> ask{"__complete", "--"};
    ask.insert(ask.end(), command.begin(), command.end());
    ask.emplace_back("--");
    std::string path = "heed";
    for (const std::string& word : command) path += " " + word;
    std::istringstream offered(heed(ask).out);
    for (std::string line; std::getline(offered, line);) {
      const std::string flag = line.substr(0, line.find('\t'));
      if (flag == "--help" || flag == "--version" || flag == "--json") continue;  // these answer otherwise
      std::vector<std::string> apart = command, together = command;
      apart.insert(apart.end(), {flag, ""});
      together.insert(together.end(), {flag + "=", "--quiet"});
      for (const auto& arguments : {apart, together}) {
        const Result result = heed(arguments);
        // A flag that takes no value leaves the empty word over.
        const bool takes_value = result.err.find(flag + " needs a value\n") != std::string::npos;
        EXPECT_TRUE(takes_value || result.err.find(path + " was given an empty ") != std::string::npos) << result.err;
        EXPECT_EQ(result.exit, kUsage) << path << " " << flag;
        EXPECT_EQ(result.out, "");
        options += takes_value ? 1 : 0;
      }
    }
  }
  EXPECT_GT(options, 60);
}

TEST(CommandLine, EmptyArgumentsAreRefused) {
  expect_usage_error({"attend", "--example", "cats", "--keep", ""}, "--keep needs a value",
                     "heed attend --help lists what it takes");
  expect_usage_error({"attend", "--keep=", "--example", "cats"}, "--keep needs a value",
                     "heed attend --help lists what it takes");
  expect_usage_error({"attend", "--example", "cats", "--normalizer", ""}, "--normalizer needs a value",
                     "heed attend --help lists what it takes");
  expect_usage_error({"attend", "--example", "cats", "--step", ""}, "--step needs a value",
                     "heed attend --help lists what it takes");
  expect_usage_error({"check", ""}, "heed check was given an empty FILE", "heed check --help lists what it takes");
  expect_usage_error({"completion", ""}, "heed completion was given an empty SHELL",
                     "heed completion --help lists what it takes");
  expect_usage_error({"attend", "--example", "cats", ""}, "heed attend was given an empty argument",
                     "heed attend --help lists what it takes");
  expect_usage_error({""}, "heed was given an empty argument", "heed --help lists what it takes");
  expect_usage_error({"help", ""}, "heed help was given an empty TOPIC", "heed help --help lists what it takes");
}

TEST(CommandLine, VersionAndHelpAreAnswersOnStandardOutput) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--version"}, {"-V"}, {"--help"}, {"-h"}, {"bench", "attention", "--help"}}) {
    const Result result = heed(arguments);
    EXPECT_EQ(result.exit, kOk);
    EXPECT_NE(result.out, "");
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(heed({"--version"}).out, "heed " + std::string(kVersion) + "\n");
  EXPECT_EQ(heed({"bench", "attention", "--version"}).out, heed({"--version"}).out);
}

TEST(CommandLine, WithJsonAnErrorOfTheParserIsAnObjectToo) {
  const Result result = heed({"bench", "attention", "--json", "--thread", "2"});
  EXPECT_EQ(result.exit, kUsage);
  EXPECT_EQ(result.err.rfind("heed: error: ", 0), 0U);
  EXPECT_EQ(Json::parse(result.out), (Json{{"error",
                                            {{"code", "usage.unknown_argument"},
                                             {"exit", 2},
                                             {"message", "heed bench attention does not know '--thread'"},
                                             {"hint", "did you mean '--threads'?"},
                                             {"at", nullptr}}}}));
}

TEST(CommandLine, WithJsonBytesThatAreNotUtf8AreReplaced) {
  const Result result = heed({"zzz\xff\x1b", "--json"});
  EXPECT_EQ(Json::parse(result.out)["error"]["message"], "heed does not know 'zzz\ufffd\x1b'");
}

TEST(CommandLine, ControlCharactersOfArgumentsAreShownNotObeyed) {
  const Result result = heed({"help", "a\x1b[2Jb\n"});
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_NE(result.err.find("'a\\x1b[2Jb\\x0a'"), std::string::npos) << result.err;
}

TEST(CommandLine, ColorOverrulesTheTerminal) {
  Terminal colored;
  colored.color = true;
  EXPECT_NE(heed({"--help"}, {"", colored}).out.find('\x1b'), std::string::npos);
  EXPECT_EQ(heed({"--help", "--color", "never"}, {"", colored}).out, heed({"--help"}).out);
  EXPECT_EQ(heed({"--color=always", "--help"}).out, heed({"--help"}, {"", colored}).out);
  EXPECT_NE(heed({"bensh", "--color=always"}).err.find('\x1b'), std::string::npos);
}

TEST(CommandLine, WithoutUtf8EverythingIsAscii) {
  Terminal ascii;
  ascii.utf8 = false;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"help", "--markdown"}, {"help", "café"}, {"café", "--json"}}) {
    const Result result = heed(arguments, {"", ascii});
    for (const char letter : result.out + result.err) ASSERT_GT(letter, 0) << result.out << result.err;
  }
  EXPECT_EQ(Json::parse(heed({"café", "--json"}, {"", ascii}).out)["error"]["message"], "heed does not know 'café'");
}

TEST(CommandLine, AnAnswerThatCannotBeWrittenIsAFailure) {
  std::istringstream in;
  std::ostringstream out, err;
  out.setstate(std::ios::badbit);
  EXPECT_EQ(run({"--help"}, {in, out, err}), kFailure);
  EXPECT_EQ(err.str(),
            "heed: error: the answer could not be written to standard output\n"
            "  hint: is the disk full, or standard output closed?\n");
}

}  // namespace
}  // namespace heed::cli
