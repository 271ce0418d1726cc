// The parser's complaints in the words that every other error has.
#pragma once

#include <CLI/CLI.hpp>

#include "cli/command_line.h"

namespace heed::cli {

CommandError usage_error(const CLI::App& app, const CLI::ParseError& error);

// Every option and positional argument of `app` and its commands refuses an empty value, before its other checks: it is
// most often a variable of the shell that is not set, and never means "as if the flag were not there".
void refuse_empty_values(CLI::App& app);

// "did you mean 'x'?" where a name is near, otherwise "give a, b or c".
std::string hint_of_names(const std::string& word, const std::vector<std::string>& names);

}  // namespace heed::cli
