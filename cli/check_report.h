// What `heed check` answers, as text and as JSON.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/terminal.h"
#include "heed/explain/grade.h"

namespace heed::cli {

// A table a step: claimed, exact and verdict, row by row; then remarks, and the summary as the last line.
void write_check_text(const std::string& file, const explain::WorkedExample& example, const explain::Grading& grading,
                      const Terminal& terminal, std::ostream& out);

// One document, schema heed/check@1.
void write_check_json(const std::string& file, const explain::WorkedExample& example, const explain::Grading& grading,
                      std::ostream& out);

}  // namespace heed::cli
