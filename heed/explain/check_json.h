// A grading as one JSON document, schema heed/check@1, printed by `heed check --json`.
#pragma once

#include <string>

#include "heed/explain/grade.h"

namespace heed::explain {

// `file` is the check file as the user named it.
std::string check_json(const std::string& file, const WorkedExample& example, const Grading& grading);

}  // namespace heed::explain
