// Help from the option table: for the terminal, and the whole manual as Markdown.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cli/terminal.h"

namespace heed::cli {

// What `heed … --help` prints: usage, what the command does, its commands and options in their groups, then the
// command's own footer (examples).
std::string help_text(const CLI::App& app, const Terminal& terminal);

// Every command's help under a heading of its own: docs/cli.md.
std::string manual_markdown(const CLI::App& app);

}  // namespace heed::cli
