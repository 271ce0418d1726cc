#include "tests/cli/json_schema.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace heed::cli
