// Check files: a worked example of attention in TOML, with its inputs and the claimed numbers of its steps.
// docs/check-files.md describes the format.
#pragma once

#include <string>

#include "heed/explain/grade.h"

namespace heed::explain {

// Larger files are rejected, and so are steps of more than kMostNumbers (steps.h) numbers.
inline constexpr int64_t kMostCheckFileBytes = int64_t{4} << 20;

// Reads the worked example at `path` and computes its exact steps. Throws an io::FileError that names file and line.
WorkedExample read_check_file(const std::string& path);

// The same from the text of a file; `path` is for messages.
WorkedExample parse_check_file(const std::string& text, const std::string& path);

}  // namespace heed::explain
