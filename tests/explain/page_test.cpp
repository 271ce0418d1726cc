#include "heed/explain/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "heed/attention/step_table.h"

namespace heed::explain {
namespace {

constexpr std::string_view kBegin = R"(<script type="application/json" id="data">)";
constexpr std::string_view kEnd = "</script>";

// What a browser hands to JSON.parse: the text up to the first end of a script.
std::string data_of(std::string_view page) {
  const size_t begin = page.find(kBegin) + kBegin.size();
  return std::string(page.substr(begin, page.find(kEnd, begin) - begin));
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(AttendPage, WithoutDataIsUnder60kB) { EXPECT_LT(attend_page("").size(), 60000U); }

TEST(AttendPage, HoldsTheJsonThatWasGiven) {
  const std::string json =
      R"({"schema":"heed/attend@1","title":"a \"quoted\" title, é, −∞","data":[[0.1,-2e-7],[null,1]]})";
  EXPECT_EQ(data_of(attend_page(json)), json);
}

TEST(AttendPage, HasOnePlaceForTheDataAndAllPartsFilledIn) {
  EXPECT_EQ(count_of(kAttendPage, kAttendPageData), 1U);
  EXPECT_EQ(count_of(kAttendPage, kAttendPageSteps), 1U);
  const std::string page = attend_page("{}");
  for (const char* part : {"@json@", "@steps@", "@style@", "@script@", "@style_hash@", "@script_hash@"}) {
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
}

TEST(AttendPage, HoldsTheTableOfSteps) {
  const std::string page = attend_page("{}");
  constexpr std::string_view kSteps = R"(<script type="application/json" id="steps">)";
  const size_t begin = page.find(kSteps) + kSteps.size();
  const nlohmann::json table = nlohmann::json::parse(page.substr(begin, page.find(kEnd, begin) - begin));
  ASSERT_EQ(table.size(), kStepCount);
  EXPECT_EQ(table[0]["name"], "x");
  const nlohmann::json& heads = table[static_cast<size_t>(AttentionStep::heads)];
  EXPECT_EQ(heads["dims"], (nlohmann::json{"B", "Tq", "H", "Dv"}));
  EXPECT_EQ(heads["sources"], (nlohmann::json{"dropped", "v"}));
  EXPECT_EQ(heads["optional"], false);
  EXPECT_EQ(table[static_cast<size_t>(AttentionStep::dropped)]["optional"], true);
}

TEST(AttendPage, HostileTextCannotLeaveItsElement) {
  const std::string hostile =
      R"({"tokens":["</script><script>alert(1)</script>","<!--<script>","<img src=x onerror=alert(1)>","</SCRIPT >"]})";
  const std::string page = attend_page(hostile);
  const std::string data = data_of(page);
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(replaced(data, "\\u003c", "<"), hostile);
  // Around the data the page is the same as for an empty document.
  EXPECT_EQ(replaced(page, data, ""), attend_page(""));
}

TEST(AttendPage, DataThatLooksLikeThePlaceStaysData) {
  const std::string json = R"({"title":"@json@ @script@"})";
  EXPECT_EQ(data_of(attend_page(json)), json);
}

TEST(AttendPage, AsksNothingOfTheNetwork) {
  EXPECT_NE(kAttendPage.find("default-src 'none'"), std::string_view::npos);
  EXPECT_EQ(kAttendPage.find("unsafe"), std::string_view::npos);
  for (const char* way :
       {"http:", "https:", "src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML"}) {
    EXPECT_EQ(kAttendPage.find(way), std::string_view::npos) << way;
  }
}

}  // namespace
}  // namespace heed::explain
