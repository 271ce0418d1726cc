#include "heed/io/toml.h"

#include <gtest/gtest.h>

#include <cmath>

namespace heed::io {
namespace {

TomlValue parse(const std::string& text) { return parse_toml(text, "test.toml"); }

// The refusal of `text`: "message [place] hint".
std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const FileError& error) {
    return error.message() + " [" + error.at() + "] " + error.hint();
  }
  return "not refused";
}

TEST(Toml, NumbersKeepTheirText) {
  const TomlValue table = parse("a = 0.50\nb = [1e-3, -1_000.0_5,+2.0 ,\n  12]# c\nc = -inf\nd = 0x1F\n");
  EXPECT_EQ(table.find("a")->text, "0.50");
  EXPECT_EQ(table.find("a")->number, 0.5);
  const std::vector<TomlValue>& items = table.find("b")->items;
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[0].text, "1e-3");
  EXPECT_EQ(items[1].text, "-1_000.0_5");
  EXPECT_EQ(items[1].number, -1000.05);
  EXPECT_EQ(items[2].text, "+2.0");
  EXPECT_EQ(items[3].text, "12");
  EXPECT_EQ(items[3].line, 3);
  EXPECT_EQ(table.find("c")->text, "-inf");
  EXPECT_TRUE(std::isinf(table.find("c")->number));
  EXPECT_EQ(table.find("d")->text, "0x1F");
  EXPECT_EQ(table.find("e"), nullptr);
}

TEST(Toml, ColumnsAreCharactersAlsoBehindAccentsAndWithWindowsLines) {
  const TomlValue table =
      parse("\xEF\xBB\xBFs = \"h\xC3\xA9\xE2\x88\x9E\"\r\nt = { \"\xC3\xA9\" = 0.10, z = 0.200 }\r\n");
  EXPECT_EQ(table.find("s")->text, "h\xC3\xA9\xE2\x88\x9E");
  EXPECT_EQ(table.find("t")->members[0].name, "\xC3\xA9");
  EXPECT_EQ(table.find("t")->members[0].value.text, "0.10");
  EXPECT_EQ(table.find("t")->members[1].value.text, "0.200");
}

TEST(Toml, MembersStandInTheOrderOfTheFile) {
  const TomlValue table = parse("z = true\na = \"text\"\n[m]\nb = []\na = 1979-05-27\n");
  ASSERT_EQ(table.members.size(), 3U);
  EXPECT_EQ(table.members[0].name, "z");
  EXPECT_EQ(describe(table.members[0].value), "true or false");
  EXPECT_EQ(table.members[1].value.text, "text");
  EXPECT_EQ(table.members[2].value.members[0].name, "b");
  EXPECT_EQ(table.members[2].value.members[0].value.line, 4);
  EXPECT_EQ(describe(table.members[2].value.members[1].value), "a date or time");
}

TEST(Toml, WhatIsNotTomlIsRefusedWithItsLine) {
  EXPECT_NE(refusal("a = 1\nb = .5\n").find("not TOML: "), std::string::npos);
  EXPECT_NE(refusal("a = 1\nb = .5\n").find("[test.toml:2]"), std::string::npos);
  EXPECT_NE(refusal("a = 1\n\na = 2\n").find("[test.toml:3]"), std::string::npos);
  EXPECT_NE(refusal("a = [1, 2\n").find("[test.toml:"), std::string::npos);
}

TEST(Toml, WhatTheParserDidNotExpectIsRefusedTooAndWithItsLine) {
  const std::string at_two = "not TOML [test.toml:2]";
  for (const std::string second : {"[#b]", "[#", "[[[", "[[[a]]]"}) {
    for (const std::string rest : {"", "\n", "\nb = 2\n[c]\nd = 3\n"}) {
      SCOPED_TRACE(second + rest);
      EXPECT_EQ(refusal("a = 1\n" + second + rest).substr(0, at_two.size()), at_two);
    }
  }
  EXPECT_EQ(refusal("[#").substr(0, 22), "not TOML [test.toml:1]");
}

TEST(Toml, EscapesAreThoseOfToml) {
  EXPECT_EQ(parse("a = \"\\u00e9 \\\\ \\\"\"").find("a")->text, "\xC3\xA9 \\ \"");
  EXPECT_NE(refusal("\na = \"\\\xC3\xA9\"").find("a backslash before"), std::string::npos);
  EXPECT_NE(refusal("\na = \"\\\xC3\xA9\"").find("[test.toml:2]"), std::string::npos);
  EXPECT_NE(refusal("\na = \"\"\"\n\\\xC3\xA9\"\"\"").find("[test.toml:3]"), std::string::npos);
  EXPECT_NE(refusal("\na = \"\\q\"").find("[test.toml:2]"), std::string::npos);
  EXPECT_NE(refusal("\na = \"\\").find("[test.toml:2]"), std::string::npos);
  EXPECT_NE(refusal("\na = \"\\\xFF\"").find("not UTF-8 [test.toml:2]"), std::string::npos);
}

TEST(Toml, OutsideOfTextsAndCommentsThereIsOnlyAscii) {
  EXPECT_NE(refusal("a = 1\n\xEF\xBB\x9C = 2\n").find("not ASCII outside of a text [test.toml:2]"), std::string::npos);
  EXPECT_EQ(parse("a = \"\xC3\xA9\" # \xC3\xA9\n# \xC3\xA9").members.size(), 1U);
  EXPECT_EQ(parse("a = \"\"\"\xF0\x9F\x90\x88\n\xC3\xA9\"\"\"\"\"\n").find("a")->text,
            "\xF0\x9F\x90\x88\n\xC3\xA9\"\"");
  EXPECT_NE(refusal("a = '\xC3\xA9'").find("between single quotes [test.toml:1]"), std::string::npos);
  for (const char* bad : {"\xFF", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE0\x80\x80"}) {
    EXPECT_EQ(refusal("\n# " + std::string(bad)), "not UTF-8 [test.toml:2] save the file as UTF-8");
  }
}

TEST(Toml, DeepNestingIsRefused) {
  EXPECT_EQ(refusal("a = [[[[[[[[[[1]]]]]]]]]]"), "arrays or tables nested more than 8 deep [test.toml:1] ");
  EXPECT_NE(refusal("\n" + std::string(100000, '[')).find("not TOML [test.toml"), std::string::npos);
}

// The parser nests a table for each dot of a name, and its memory is given back by a call for each.
TEST(Toml, NamesOfManyDotsAreRefusedBeforeTheyNest) {
  const std::string message = "a name with more than 16 dots [test.toml:2]";
  std::string dots = "a";
  for (int n = 0; n < 100000; ++n) dots += ".a";
  std::string quoted = "a";
  for (int n = 0; n < 100000; ++n) quoted += ".\",=[\".'#{'";
  for (const std::string& name : {dots, quoted}) {
    EXPECT_EQ(refusal("\n" + name + " = 1").substr(0, message.size()), message);
    EXPECT_EQ(refusal("\n[" + name + "]").substr(0, message.size()), message);
    EXPECT_EQ(refusal("\nx = { " + name + " = 1 }").substr(0, message.size()), message);
    EXPECT_EQ(refusal("x = \"\"\"a\"\"\"\"\"\n" + name + " = 1").substr(0, message.size()), message);
  }
}

TEST(Toml, DotsInTextsCommentsAndNumbersAreNoNames) {
  const std::string many(1000, '.');
  std::string row = "0.5";
  for (int n = 0; n < 1000; ++n) row += ", 0.5";
  EXPECT_EQ(parse("# " + many + "\na = \"" + many + "\" # " + many + "\nb = '''\n" + many + "'''\nc = [" + row + "]\n#")
                .members.size(),
            3U);
}

}  // namespace
}  // namespace heed::io
