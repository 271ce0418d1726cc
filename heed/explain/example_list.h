// The built-in examples as a list: what `heed attend --list` prints.
#pragma once

#include <string>

namespace heed::explain {

// A line each: its name and what it is about.
std::string examples_text();
// One JSON document, schema heed/attend-list@1.
std::string examples_json();

}  // namespace heed::explain
