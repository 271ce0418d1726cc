// Checks a document against docs/schema/NAME.json: the words of JSON Schema that those files use, and no others.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace heed::cli {

// What is wrong, with the place of the first mistake; empty where the document obeys.
std::string schema_mistake(const std::string& schema_name, const nlohmann::json& document);

// The same by the schema that the document names: heed/check@1.
std::string answer_mistake(const nlohmann::json& document);

}  // namespace heed::cli
