// What each subcommand's file offers to command_line.cpp.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <iosfwd>

namespace heed::cli {

struct Streams {
  std::ostream& out;
  std::ostream& err;
};

// Adds `heed bench …`. What the parsed command is to do is stored in `action`.
void add_bench(CLI::App& app, Streams streams, std::function<void()>& action);

}  // namespace heed::cli
