// The table of commands and options, read from the parser: what help, completion and error texts all go by.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace heed::cli {

// The subcommand that was parsed last: `bench attention`, not `bench`.
const CLI::App& innermost(const CLI::App& app);

// "heed bench attention".
std::string path_of(const CLI::App& app);

// The subcommands that are shown to users, in the order they were added.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

// The options of a command that are shown to users; positional arguments too.
std::vector<const CLI::Option*> options_of(const CLI::App& app);

// The options that are accepted after a command: its own, then those of the commands above it. --help comes once.
std::vector<const CLI::Option*> options_with_inherited(const CLI::App& app);

// "--threads", or "-h" where there is no long name, or "FILE" where it is positional.
std::string name_of(const CLI::Option& option);

bool is_flag(const CLI::Option& option);  // takes no value

// The values that an option knows by name: those of CLI::IsMember or known_names. Empty where it takes others.
std::vector<std::string> values_of(const CLI::Option& option);

// Does the option name a file? It does where its type is called FILE, option->type_name("FILE"), or, for a positional
// one, where that is its name.
bool takes_file(const CLI::Option& option);

// The type as help shows it, without the values: "N", "FILE"; empty for a flag.
std::string type_of(const CLI::Option& option);

// Tells completion and help the names that an option knows, and refuses none of the others: the command does that, in
// its own words. The names are asked for only when they are needed.
CLI::Option* known_names(CLI::Option* option, std::function<std::vector<std::string>()> names);

}  // namespace heed::cli
