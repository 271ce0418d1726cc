// The built-in examples: small attentions that people learn from, as AttendCases.
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

// An Error that names them all for any other name.
AttendCase example(const std::string& name);

}  // namespace heed::explain
