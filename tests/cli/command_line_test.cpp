#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

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

TEST(CommandLine, VersionAndHelpAreAnswersOnStandardOutput) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--version"}, {"-V"}, {"--help"}, {"-h"}, {"bench", "attention", "--help"}}) {
    const Result result = heed(arguments);
    EXPECT_EQ(result.exit, kOk);
    EXPECT_NE(result.out, "");
    EXPECT_EQ(result.err, "");
  }
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
