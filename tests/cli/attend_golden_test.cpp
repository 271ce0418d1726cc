// What `heed attend --example` prints, text and JSON, is what tests/golden/attend/ holds. After a change that is meant:
//     HEED_WRITE_GOLDENS=1 build/tests/heed_cli_tests --gtest_filter='AttendGolden.*'
// writes it anew; look at the difference before committing it. Numbers may differ by rounding, as instruction sets do.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heed/explain/examples.h"
#include "heed/explain/text_style.h"
#include "tests/cli/in_process.h"
#include "tests/cli/json_schema.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_directory.h"

namespace heed::cli {
namespace {

using Json = nlohmann::ordered_json;

// The golden's text; with HEED_WRITE_GOLDENS it is `now`, written.
std::string golden(const std::string& name, const std::string& now) {
  const std::string path = test::golden_path("attend/" + name);
  if (std::getenv("HEED_WRITE_GOLDENS") != nullptr) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << now;
  }
  return test::bytes_of(path);
}

bool is_number(const std::string& word, double& value) {
  char* end = nullptr;
  value = std::strtod(word.c_str(), &end);
  return !word.empty() && end == word.c_str() + word.size();
}

// Word by word: equal, or numbers that differ by rounding. The instruction set is whatever it is.
void expect_same_text(const std::string& got, const std::string& expected) {
  std::istringstream got_lines(got), expected_lines(expected);
  std::string got_line, expected_line;
  while (std::getline(expected_lines, expected_line)) {
    ASSERT_TRUE(std::getline(got_lines, got_line)) << "missing: " << expected_line;
    std::istringstream a(got_line), b(expected_line);
    std::string x, y;
    while (b >> y) {
      ASSERT_TRUE(a >> x) << got_line;
      double p = 0.0, q = 0.0;
      const bool isa_of_plan = y.ends_with(';') && expected_line.find("  plan ") == 0;
      if (x == y || isa_of_plan) continue;
      if (!x.empty() && x.back() == ',') x.pop_back(), y.pop_back();
      ASSERT_TRUE(is_number(x, p) && is_number(y, q) && std::abs(p - q) < 1.5e-4)
          << "got      " << got_line << "\nexpected " << expected_line;
    }
    EXPECT_FALSE(a >> x) << got_line;
  }
  EXPECT_FALSE(std::getline(got_lines, got_line)) << got_line;
}

// Of large data the first numbers; nothing that depends on the machine.
void reduce(Json& document) {
  for (const char* list : {"steps", "parameters"}) {
    if (!document.contains(list)) continue;
    for (Json& each : document[list]) {
      if (!each.contains("data")) continue;
      int64_t count = 1;
      for (const auto& size : each["shape"]) count *= size.get<int64_t>();
      if (count <= 100) continue;
      const Json flat = each["data"].flatten();
      Json first = Json::array();
      for (const Json& value : flat) {
        if (first.size() < 8) first.push_back(value);
      }
      each["data"] = first;
    }
  }
  document["checks"].erase("row_sum_max_err");
  document["checks"].erase("ref_max_abs_diff");
  document["plan"].erase("isa");
  document["plan"].erase("workspace_bytes");
}

void expect_same_json(const Json& got, const Json& expected, const std::string& at) {
  if (got.is_number() && expected.is_number()) {
    const double a = got.get<double>(), b = expected.get<double>();
    EXPECT_LE(std::abs(a - b), 4e-6 * std::max(1.0, std::abs(b))) << at;
    return;
  }
  ASSERT_EQ(got.type(), expected.type()) << at;
  if (!got.is_structured()) {
    EXPECT_EQ(got, expected) << at;
    return;
  }
  ASSERT_EQ(got.size(), expected.size()) << at;
  auto b = expected.begin();
  for (auto a = got.begin(); a != got.end(); ++a, ++b) {
    if (got.is_object()) {
      ASSERT_EQ(a.key(), b.key()) << at;
    }
    expect_same_json(*a, *b, at + "/" + (got.is_object() ? a.key() : std::to_string(a - got.begin())));
  }
}

TEST(AttendGolden, TextOfEveryExample) {
  for (const auto& [name, about] : explain::example_names()) {
    SCOPED_TRACE(name);
    const Result result = heed({"attend", "--example", name});
    EXPECT_EQ(result.exit, kOk);
    EXPECT_EQ(result.err, "");
    expect_same_text(result.out, golden(name + ".txt", result.out));
  }
}

TEST(AttendGolden, JsonOfEveryExample) {
  for (const auto& [name, about] : explain::example_names()) {
    SCOPED_TRACE(name);
    const Result result = heed({"attend", "--example", name, "--json"});
    EXPECT_EQ(result.exit, kOk);
    EXPECT_EQ(result.out.rfind("{\"schema\":\"heed/attend@1\",", 0), 0U);
    Json document = Json::parse(result.out);
    EXPECT_EQ(answer_mistake(document), "");
    reduce(document);
    expect_same_json(document, Json::parse(golden(name + ".json", document.dump(1) + "\n")), name);
  }
}

// Words with one space between them.
std::string collapsed(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += " " + word;
  return result + " ";
}

void collect_rows(const Json& data, std::vector<std::vector<float>>& rows) {
  if (data.is_array() && !data.empty() && !data[0].is_array()) {
    rows.emplace_back();
    for (const Json& each : data) rows.back().push_back(each.is_null() ? -INFINITY : each.get<float>());
  } else {
    for (const Json& each : data) collect_rows(each, rows);
  }
}

TEST(AttendGolden, TextAndJsonHaveTheSameNumbers) {
  for (const auto& [name, about] : explain::example_names()) {
    if (name == "eight-heads") continue;  // text shows its corners
    SCOPED_TRACE(name);
    const std::string text = collapsed(heed({"attend", "--example", name}).out);
    const Json document = Json::parse(heed({"attend", "--example", name, "--json"}).out);
    for (const Json& step : document["steps"]) {
      std::vector<std::vector<float>> rows;
      collect_rows(step["data"], rows);
      EXPECT_FALSE(rows.empty());
      for (const std::vector<float>& row : rows) {
        std::string line = " ";
        for (const float value : row) line += explain::number_text(value, {}) + " ";
        EXPECT_NE(text.find(line), std::string::npos) << step["name"] << line;
      }
    }
  }
}

}  // namespace
}  // namespace heed::cli
