#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/in_process.h"
#include "tests/cli/json_schema.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_directory.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;
using test::TemporaryDirectory;

std::string notes(const std::string& name) { return std::string(HEED_NOTES_DIRECTORY) + "/" + name + ".toml"; }

std::vector<std::string> all_notes() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(HEED_NOTES_DIRECTORY)) {
    names.push_back(entry.path().stem().string());
  }
  return names;
}

Result check_text(const std::string& text, const std::vector<std::string>& flags = {}, const Terminal& terminal = {}) {
  const TemporaryDirectory directory;
  std::vector<std::string> arguments{"check", directory.file("exam.toml", text)};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Result result = heed(arguments, {"", terminal});
  for (size_t at; (at = result.err.find(directory.path() + "/")) != std::string::npos;) {
    result.err.erase(at, directory.path().size() + 1);
  }
  return result;
}

// A golden is rewritten by: heed check examples/notes/NAME.toml > tests/golden/check/NAME.txt
TEST(CheckCommand, PrintsTheNotesAsTheGoldensHaveThem) {
  for (const std::string& name : all_notes()) {
    SCOPED_TRACE(name);
    const Result result = heed({"check", notes(name)});
    EXPECT_EQ(result.out, test::bytes_of(test::golden_path("check/" + name + ".txt")));
    EXPECT_EQ(result.err, "");
  }
}

TEST(CheckCommand, ExitsWithSixWhenANumberIsWrong) {
  for (const char* name : {"one-token", "self", "masked", "cross", "cats", "cats-512", "gustan"}) {
    EXPECT_EQ(heed({"check", notes(name)}).exit, kCheckFailed) << name;
    EXPECT_EQ(heed({"check", notes(name), "--json"}).exit, kCheckFailed) << name;
  }
  for (const char* name : {"causal-ones", "self-sigmoid"}) EXPECT_EQ(heed({"check", notes(name)}).exit, kOk) << name;
}

TEST(CheckCommand, EndsWithASummaryThatPointsAtTheFirstWrongStep) {
  const std::string cats = heed({"check", notes("cats")}).out;
  EXPECT_TRUE(
      cats.ends_with("\n26 numbers: 4 right, 0 cut, 5 near, 11 wrong, 6 follow from an earlier slip; "
                     "first wrong step: scores, row 0\n"));
  const std::string ones = heed({"check", notes("causal-ones")}).out;
  EXPECT_TRUE(ones.ends_with("\n9 numbers: 9 right, 0 cut, 0 near, 0 wrong; nothing is wrong\n"));
}

TEST(CheckCommand, JsonHasEveryNumberWithItsVerdicts) {
  const Result result = heed({"check", notes("self"), "--json"});
  EXPECT_EQ(result.out.find("{\n \"schema\": \"heed/check@1\""), 0U);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["title"], "self: two tokens attend to each other");
  EXPECT_EQ(json["count"], 32);
  EXPECT_EQ(json["wrong"], 3);
  EXPECT_EQ(json["follows"], 0);
  EXPECT_EQ(json["first_wrong"]["step"], "v");
  EXPECT_EQ(json["first_wrong"]["row"], 1);
  EXPECT_EQ(json["nonfinite"], 0);
  const Json& v = json["steps"][2];
  EXPECT_EQ(v["name"], "v");
  EXPECT_EQ(v["formula"], "v = x W_V");
  EXPECT_EQ(v["shape"], (std::vector<int>{2, 3}));
  const Json& number = v["numbers"][3];
  EXPECT_EQ(number["row"], 1);
  EXPECT_EQ(number["column"], 0);
  EXPECT_EQ(number["text"], "-0.02");
  EXPECT_EQ(number["claimed"], -0.02);
  EXPECT_EQ(number["unit"], 0.01);
  EXPECT_NEAR(number["exact"], 0.441, 1e-12);
  EXPECT_EQ(number["verdict"], "wrong");
  EXPECT_EQ(number["line"], 14);
  EXPECT_EQ(json["remarks"][0]["kind"], "other_step");
  EXPECT_EQ(json["remarks"][0]["step"], "v");
}

TEST(CheckCommand, JsonAndTextCountTheSame) {
  for (const std::string& name : all_notes()) {
    const Json json = Json::parse(heed({"check", notes(name), "--json"}).out);
    const std::string summary =
        std::to_string(json["count"].get<int>()) + " numbers: " + std::to_string(json["right"].get<int>()) +
        " right, " + std::to_string(json["cut"].get<int>()) + " cut, " + std::to_string(json["near"].get<int>()) +
        " near, " + std::to_string(json["wrong"].get<int>()) + " wrong";
    EXPECT_NE(heed({"check", notes(name)}).out.find(summary), std::string::npos) << name;
  }
}

TEST(CheckCommand, JsonObeysItsSchema) {
  for (const std::string& name : all_notes()) {
    EXPECT_EQ(answer_mistake(Json::parse(heed({"check", notes(name), "--json"}).out)), "") << name;
  }
}

TEST(CheckCommand, JsonHasNullForMinusInfinityAndCountsIt) {
  const Json json = Json::parse(heed({"check", notes("gustan"), "--json"}).out);
  const Json& hidden = json["steps"][0]["numbers"][1];
  EXPECT_EQ(hidden["text"], "-inf");
  EXPECT_TRUE(hidden["claimed"].is_null());
  EXPECT_TRUE(hidden["exact"].is_null());
  EXPECT_EQ(hidden["verdict"], "right");
  EXPECT_EQ(json["nonfinite"], 3);
}

TEST(CheckCommand, BadFilesAreRefusedWithLineAndHint) {
  const Result unknown = check_text("scaled = [[1.0]]\n[claimed]\nwieghts = [[1]]\n");
  EXPECT_EQ(unknown.exit, kBadData);
  EXPECT_EQ(unknown.out, "");
  EXPECT_EQ(unknown.err,
            "heed: error: unknown key 'claimed.wieghts'  [exam.toml:3]\n  hint: did you mean 'weights'?\n");
  const Result ragged = check_text("q = [[1.0, 2.0], [3.0]]\n[claimed]\nq = [[1.0, 2.0], []]\n");
  EXPECT_EQ(ragged.exit, kBadData);
  EXPECT_EQ(ragged.err,
            "heed: error: q: row 1 has 1 number, the one before it 2  [exam.toml:1]\n  hint: rows are equally long\n");
  const Result missing = heed({"check", "no-such-file.toml", "--json"});
  EXPECT_EQ(missing.exit, kBadData);
  EXPECT_EQ(Json::parse(missing.out)["error"]["exit"], 3);
  EXPECT_EQ(Json::parse(missing.out)["error"]["at"], "no-such-file.toml");
  EXPECT_EQ(heed({"check"}).exit, kUsage);
}

// Numbers that are not right come first where not all fit.
TEST(CheckCommand, LargeStepsShowWhatIsNotRightAndFitTheWidth) {
  const auto matrix = [](int wrong_row, int wrong_column) {
    std::string text = "[";
    for (int i = 0; i < 20; ++i) {
      text += "[";
      for (int j = 0; j < 40; ++j) text += i == wrong_row && j == wrong_column ? "7.25, " : "0.50, ";
      text += "], ";
    }
    return text + "]";
  };
  const std::string text = "q = " + matrix(-1, -1) + "\n[claimed]\nq = " + matrix(17, 33) + "\n";
  for (const int width : {50, 60, 100, 200}) {
    Terminal terminal;
    terminal.width = width;
    const Result result = check_text(text, {}, terminal);
    EXPECT_EQ(result.exit, kCheckFailed);
    EXPECT_NE(result.out.find("row 17  claimed"), std::string::npos);
    EXPECT_NE(result.out.find("7.25"), std::string::npos);
    EXPECT_NE(result.out.find("… 12 more rows, all right\n"), std::string::npos);
    EXPECT_NE(result.out.find("more columns of 40\n"), std::string::npos);
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      const bool summary = line.find(" numbers: ") != std::string::npos;  // one line, for other programs
      if (!summary) {
        EXPECT_LE(columns_of(line), width) << line;
      }
    }
  }
}

TEST(CheckCommand, ColourMarksVerdictsAndChangesNoText) {
  Terminal colour;
  colour.color = true;
  std::string painted = heed({"check", notes("cats")}, {"", colour}).out;
  EXPECT_NE(painted.find("\x1b["), std::string::npos);
  for (size_t at; (at = painted.find("\x1b[")) != std::string::npos;) painted.erase(at, painted.find('m', at) - at + 1);
  EXPECT_EQ(painted, heed({"check", notes("cats")}).out);
}

TEST(CheckCommand, TheExampleOfTheHelpIsAFileThatWorks) {
  const std::string help = heed({"check", "--help"}).out;
  const size_t begin = help.find("  title = ");
  const size_t end = help.find("Inputs:");
  ASSERT_NE(begin, std::string::npos);
  ASSERT_NE(end, std::string::npos);
  const Result result = check_text(help.substr(begin, end - begin));
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_NE(result.out.find("8 numbers: 7 right, 1 cut, 0 near, 0 wrong; nothing is wrong\n"), std::string::npos)
      << result.out;
}

}  // namespace
}  // namespace heed::cli
