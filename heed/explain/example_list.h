// The list of built-in examples, printed by `heed attend --list`.
#pragma once

#include <string>

namespace heed::explain {

// One line per example: its name and what it is about.
std::string examples_text();
// One JSON document, schema heed/attend-list@1.
std::string examples_json();

}  // namespace heed::explain
