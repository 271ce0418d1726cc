#include "tests/cli/json_schema.h"

#include <gtest/gtest.h>

#include <fstream>

#include "heed/explain/attend_case.h"
#include "tests/cli/in_process.h"

namespace heed::cli {
namespace {

using Json = nlohmann::json;

Json error() { return {{"error", {{"code", "a.b"}, {"exit", 2}, {"message", "m"}, {"hint", nullptr}, {"at", "f:1"}}}}; }

TEST(JsonSchema, SeesWhatIsMissingTooMuchOrOfAnotherType) {
  EXPECT_EQ(schema_mistake("error", error()), "");
  Json document = error();
  document["error"].erase("hint");
  EXPECT_EQ(schema_mistake("error", document), "document/error has no \"hint\"");
  document = error();
  document["error"]["more"] = 1;
  EXPECT_EQ(schema_mistake("error", document), "document/error/more is not in the schema");
  document = error();
  document["error"]["message"] = 1;
  EXPECT_EQ(schema_mistake("error", document), "document/error/message is a number");
  document = error();
  document["error"]["exit"] = 0;
  EXPECT_EQ(schema_mistake("error", document), "document/error/exit is 0");
  EXPECT_EQ(schema_mistake("nothing", error()), "docs/schema/nothing.json is not there");
}

TEST(JsonSchema, FollowsReferencesAndWhatTheDocumentSaysOfItself) {
  Json answer{{"schema", "heed/attend-list@1"}, {"examples", {{{"name", "a"}, {"about", "b"}}}}};
  EXPECT_EQ(answer_mistake(answer), "");
  answer["examples"][0]["name"] = nullptr;
  EXPECT_EQ(answer_mistake(answer), "document/examples/0/name is a null");
  answer["schema"] = "heed/nothing@1";
  EXPECT_EQ(answer_mistake(answer), "docs/schema/nothing.json is not there");
  EXPECT_EQ(answer_mistake(Json::object()), "the document says of itself: ''");
  // attend.json has numbers as arrays in arrays.
  Json steps = Json::parse(heed({"attend", "--example", "one-token", "--json"}).out);
  EXPECT_EQ(answer_mistake(steps), "");
  steps["steps"][1]["data"][0][0][0][1] = "1";
  EXPECT_EQ(answer_mistake(steps), "document/steps/1/data/0/0/0/1 is a string");
}

// A step that is shown is in the schema, in the order of the table.
TEST(JsonSchema, OfAttendNamesTheStepsOfTheTable) {
  std::ifstream file(HEED_SCHEMA_DIRECTORY "/attend.json");
  const Json schema = Json::parse(file);
  EXPECT_EQ(schema["properties"]["steps"]["items"]["properties"]["name"]["enum"], Json(explain::step_names()));
}

}  // namespace
}  // namespace heed::cli
