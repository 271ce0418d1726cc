#include "cli/terminal.h"

#include <gtest/gtest.h>

#include <map>

namespace heed::cli {
namespace {

constexpr StreamFacts kPipe{false, 0};
constexpr StreamFacts kWindow{true, 132};

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) {
    const auto found = values.find(name);
    return found == values.end() ? std::string() : found->second;
  };
}

bool color(const StreamFacts& facts, const std::map<std::string, std::string>& values) {
  return terminal_of(facts, environment(values)).color;
}

TEST(Terminal, ATerminalHasColourAndAPipeHasNone) {
  EXPECT_TRUE(color(kWindow, {{"TERM", "xterm"}}));
  EXPECT_FALSE(color(kWindow, {{"TERM", "dumb"}}));
  EXPECT_FALSE(color(kPipe, {{"TERM", "xterm"}}));
}

TEST(Terminal, NoColorTakesColourAwayUnlessItIsEmpty) {
  EXPECT_FALSE(color(kWindow, {{"NO_COLOR", "1"}}));
  EXPECT_TRUE(color(kWindow, {{"NO_COLOR", ""}}));
  EXPECT_FALSE(color(kPipe, {{"NO_COLOR", "1"}, {"FORCE_COLOR", "1"}}));
}

TEST(Terminal, ForceColorAddsColourAndNeverAnimation) {
  for (const char* name : {"FORCE_COLOR", "CLICOLOR_FORCE"}) {
    EXPECT_TRUE(color(kPipe, {{name, "1"}})) << name;
    EXPECT_FALSE(color(kPipe, {{name, "0"}})) << name;
    EXPECT_FALSE(color(kPipe, {{name, ""}})) << name;
    EXPECT_FALSE(terminal_of(kPipe, environment({{name, "1"}})).interactive) << name;
  }
  EXPECT_TRUE(terminal_of(kWindow, environment({{"NO_COLOR", "1"}})).interactive);
}

TEST(Terminal, TheFirstOfTheLocaleVariablesDecidesOnUtf8) {
  const auto utf8 = [](const std::map<std::string, std::string>& values) {
    return terminal_of(kPipe, environment(values)).utf8;
  };
  EXPECT_TRUE(utf8({{"LANG", "en_GB.UTF-8"}}));
  EXPECT_TRUE(utf8({{"LC_CTYPE", "C.utf8"}, {"LANG", "C"}}));
  EXPECT_FALSE(utf8({{"LC_ALL", "C"}, {"LANG", "en_GB.UTF-8"}}));
  EXPECT_FALSE(utf8({{"LC_CTYPE", "de_DE.ISO-8859-1"}}));
  EXPECT_FALSE(utf8({}));
}

TEST(Terminal, WidthComesFromColumnsThenTheTerminalThenADefault) {
  const auto width = [](const StreamFacts& facts, const std::string& columns) {
    return terminal_of(facts, environment({{"COLUMNS", columns}})).width;
  };
  EXPECT_EQ(width(kWindow, ""), 132);
  EXPECT_EQ(width(kWindow, "90"), 90);
  EXPECT_EQ(width(kPipe, ""), 100);
  EXPECT_EQ(width({true, 0}, ""), 80);
  EXPECT_EQ(width(kPipe, "3"), 40);
  for (const char* nonsense : {"-5", "0", "12x", "wide", "99999999999"}) EXPECT_EQ(width(kPipe, nonsense), 100);
}

TEST(Terminal, PaintIsAnEscapeSequenceWhereThereIsColourAndNothingElsewhere) {
  Terminal colored;
  colored.color = true;
  EXPECT_EQ(painted(colored, Paint::red, "error"), "\x1b[31merror\x1b[0m");
  EXPECT_EQ(painted(colored, Paint::red, ""), "");
  EXPECT_EQ(painted(Terminal{}, Paint::red, "error"), "error");
}

TEST(Terminal, ColumnsAreCharactersNotBytes) {
  EXPECT_EQ(columns_of("abc"), 3);
  EXPECT_EQ(columns_of("√d_k · ᵀ"), 8);
}

TEST(Terminal, ControlCharactersFromOutsideAreShownNotObeyed) {
  EXPECT_EQ(printable("a\x1b[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "5m"),
            "\\x9b5m");
  EXPECT_EQ(printable("café √2"), "café √2");
}

}  // namespace
}  // namespace heed::cli
