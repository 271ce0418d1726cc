#include "heed/explain/example_list.h"

#include <nlohmann/json.hpp>

#include "heed/explain/examples.h"
#include "heed/explain/text_style.h"

namespace heed::explain {

std::string examples_text() {
  constexpr int kNameWidth = 13;
  std::string text;
  for (const auto& [name, about] : example_names()) text += padded_right(name, kNameWidth) + about + "\n";
  return text;
}

std::string examples_json() {
  nlohmann::ordered_json examples = nlohmann::ordered_json::array();
  for (const auto& [name, about] : example_names()) examples.push_back({{"name", name}, {"about", about}});
  return nlohmann::ordered_json{{"schema", "heed/attend-list@1"}, {"examples", examples}}.dump(1) + "\n";
}

}  // namespace heed::explain
