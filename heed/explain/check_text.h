// A grading as text, printed by `heed check`.
#pragma once

#include <string>

#include "heed/explain/grade.h"
#include "heed/explain/text_style.h"

namespace heed::explain {

// One table per step: claimed, exact and verdict, row by row; then remarks, and a summary as the last line. `file` is
// the check file as the user named it, shown if the example has no title.
std::string check_text(const std::string& file, const WorkedExample& example, const Grading& grading,
                       const TextStyle& style);

}  // namespace heed::explain
