// What each subcommand's file offers to command_line.cpp. A new one is a line here and a line in add_commands().
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "cli/command_line.h"

namespace heed::cli {

// Each adds `heed NAME …`. What the parsed command is to do is stored in `action`.
void add_attend(CLI::App& app, Streams streams, std::function<void()>& action);
void add_bench(CLI::App& app, Streams streams, std::function<void()>& action);
void add_check(CLI::App& app, Streams streams, std::function<void()>& action);
void add_completion(CLI::App& app, Streams streams, std::function<void()>& action);
void add_doctor(CLI::App& app, Streams streams, std::function<void()>& action);
void add_help(CLI::App& app, Streams streams, std::function<void()>& action);

}  // namespace heed::cli
