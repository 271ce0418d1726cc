// The built-in examples: small attention calls to learn from, as AttendCases.
#pragma once

#include <string>
#include <vector>

#include "heed/explain/attend_case.h"

namespace heed::explain {

struct ExampleName {
  std::string name;
  std::string about;  // one line
};

// All of them, the simplest first.
const std::vector<ExampleName>& example_names();

// Throws an Error that lists all names if there is no such example.
AttendCase example(const std::string& name);

}  // namespace heed::explain
