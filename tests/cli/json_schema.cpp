#include "tests/cli/json_schema.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <stdexcept>

namespace heed::cli {
namespace {

using Json = nlohmann::json;

bool has_type(const Json& value, const std::string& type) {
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return value.type_name() == type;
}

bool type_fits(const Json& value, const Json& type) {
  if (type.is_string()) return has_type(value, type);
  return std::any_of(type.begin(), type.end(), [&](const Json& each) { return has_type(value, each); });
}

class Checker {
 public:
  explicit Checker(const Json& root) : root_(root) {}

  std::string mistake(const Json& schema, const Json& value, const std::string& place) const;

 private:
  std::string mistake_of_members(const Json& schema, const Json& value, const std::string& place) const;

  const Json& root_;  // that "$ref": "#/$defs/name" looks in
};

std::string Checker::mistake_of_members(const Json& schema, const Json& value, const std::string& place) const {
  const Json properties = schema.value("properties", Json::object());
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name)) return place + " has no " + name.dump();
  }
  for (const auto& [name, member] : value.items()) {
    const std::string inside = place + "/" + name;
    if (properties.contains(name)) {
      const std::string found = mistake(properties[name], member, inside);
      if (!found.empty()) return found;
    } else if (schema.value("additionalProperties", true) == false) {
      return inside + " is not in the schema";
    }
  }
  return "";
}

std::string Checker::mistake(const Json& schema, const Json& value, const std::string& place) const {
  static const std::set<std::string> known{
      "$schema",  "$defs",      "$ref",  "title", "description", "type", "additionalProperties",
      "required", "properties", "items", "enum",  "const"};
  for (const auto& [word, ignored] : schema.items()) {
    if (known.count(word) == 0) throw std::runtime_error("the schema's word '" + word + "' is not known here");
  }
  if (schema.contains("$ref")) {
    const Json::json_pointer target(schema["$ref"].get<std::string>().substr(1));
    const std::string found = mistake(root_.at(target), value, place);
    if (!found.empty()) return found;
  }
  if (schema.contains("const") && value != schema["const"]) return place + " is not " + schema["const"].dump();
  if (schema.contains("enum")) {
    const Json& values = schema["enum"];
    if (std::find(values.begin(), values.end(), value) == values.end()) return place + " is " + value.dump();
  }
  if (schema.contains("type") && !type_fits(value, schema["type"])) return place + " is a " + value.type_name();
  if (value.is_object()) return mistake_of_members(schema, value, place);
  if (value.is_array() && schema.contains("items")) {
    for (size_t i = 0; i < value.size(); ++i) {
      const std::string found = mistake(schema["items"], value[i], place + "/" + std::to_string(i));
      if (!found.empty()) return found;
    }
  }
  return "";
}

}  // namespace

std::string schema_mistake(const std::string& schema_name, const Json& document) {
  std::ifstream file(std::string(HEED_SCHEMA_DIRECTORY) + "/" + schema_name + ".json");
  if (!file) return "docs/schema/" + schema_name + ".json is not there";
  const Json schema = Json::parse(file);
  return Checker(schema).mistake(schema, document, "document");
}

std::string answer_mistake(const Json& document) {
  const std::string name = document.value("schema", "");
  const std::string before = "heed/", behind = "@1";
  if (!name.starts_with(before) || !name.ends_with(behind)) return "the document says of itself: '" + name + "'";
  return schema_mistake(name.substr(before.size(), name.size() - before.size() - behind.size()), document);
}

}  // namespace heed::cli
