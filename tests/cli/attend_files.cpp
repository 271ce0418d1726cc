#include "tests/cli/attend_files.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/cli/json_schema.h"

namespace heed::cli {
namespace {

// The numbers of arrays in arrays, in order.
void collect(const Json& data, std::vector<float>& numbers) {
  for (const Json& each : data) {
    if (each.is_array()) {
      collect(each, numbers);
    } else {
      numbers.push_back(each.is_null() ? -std::numeric_limits<float>::infinity() : each.get<float>());
    }
  }
}

}  // namespace

Json json_of(const std::vector<std::string>& arguments) {
  const Result result = heed(arguments + std::vector<std::string>{"--json"});
  EXPECT_EQ(result.exit, kOk) << result.err;
  EXPECT_EQ(answer_mistake(nlohmann::json::parse(result.out)), "") << result.out.substr(0, 1000);
  return Json::parse(result.out);
}

std::vector<float> numbers(const Json& document, const std::string& step) {
  std::vector<float> result;
  for (const Json& each : document["steps"]) {
    if (each["name"] == step) collect(each["data"], result);
  }
  return result;
}

const Json& step_of(const Json& document, const std::string& name) {
  static const Json none;
  for (const Json& each : document["steps"]) {
    if (each["name"] == name) return each;
  }
  return none;
}

}  // namespace heed::cli
