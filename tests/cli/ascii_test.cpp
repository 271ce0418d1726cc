#include "cli/ascii.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace heed::cli {
namespace {

std::string in_ascii(const std::string& text, AsciiStyle style = AsciiStyle::text) {
  std::ostringstream target;
  {
    AsciiBuffer buffer(target.rdbuf(), style);
    std::ostream out(&buffer);
    out << text << std::flush;
  }
  return target.str();
}

TEST(Ascii, PassesAsciiOn) { EXPECT_EQ(in_ascii("plain text\n\x1b[1m"), "plain text\n\x1b[1m"); }

TEST(Ascii, WritesKnownSymbolsByASignOrWord) {
  EXPECT_EQ(in_ascii("scores = q kᵀ / √d_k …"), "scores = q k^T / sqrt d_k ...");
  EXPECT_EQ(in_ascii("│ 2 × 3 │"), "| 2 x 3 |");
}

TEST(Ascii, WritesOtherCharactersByTheirNumber) {
  EXPECT_EQ(in_ascii("café"), "caf\\u00e9");
  EXPECT_EQ(in_ascii("🐈"), "\\ud83d\\udc08");
}

TEST(Ascii, BytesThatAreNoCharacterAreShownByTheirNumber) {
  EXPECT_EQ(in_ascii("\xff|\xc3|\x80"), "\\xff|\\xc3|\\x80");
  EXPECT_EQ(in_ascii("\xe2\x88"), "\\xe2\\x88");  // the end of the text inside of a character
}

TEST(Ascii, JsonKeepsItsMeaning) {
  const std::string document = R"({"name":"café √ 🐈 \"x\""})";
  const std::string ascii = in_ascii(document, AsciiStyle::json);
  for (const char letter : ascii) EXPECT_GT(letter, 0);
  EXPECT_EQ(nlohmann::json::parse(ascii), nlohmann::json::parse(document));
}

TEST(Ascii, AFailingTargetFails) {
  std::stringbuf closed(std::ios::in);
  AsciiBuffer buffer(&closed, AsciiStyle::text);
  std::ostream out(&buffer);
  out << "lost";
  EXPECT_TRUE(out.fail());
}

}  // namespace
}  // namespace heed::cli
