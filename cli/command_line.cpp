#include "cli/command_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/subcommands.h"
#include "heed/core/suggest.h"

namespace heed::cli {
namespace {

// Names of flags are written with dashes; underscores are taken for them.
std::string with_dashes(std::string argument) {
  if (argument.rfind("--", 0) != 0) return argument;
  const auto name_end = std::find(argument.begin(), argument.end(), '=');
  std::replace(argument.begin(), name_end, '_', '-');
  return argument;
}

// The subcommand that was parsed last: `bench attention`, not `bench`.
const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(subcommand->get_name());
  }
  return names;
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() ? path_of(*app.get_parent()) + " " + app.get_name() : "heed";
}

// The parser's complaint in the words that every other error has.
CommandError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = innermost(app);
  const std::string see_help = path_of(at) + " --help lists what it takes";
  const std::vector<std::string> left = at.remaining(true);
  const bool no_subcommand = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if ((no_subcommand || dynamic_cast<const CLI::ExtrasError*>(&error)) && !left.empty()) {
    const std::string hint = did_you_mean(left.front(), names_of(at));
    return {"usage.unknown_argument", path_of(at) + " does not know '" + left.front() + "'",
            hint.empty() ? see_help : hint};
  }
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  return {"usage.bad_argument", message, see_help};
}

int report_error(const CommandError& error, bool json, Streams streams) {
  streams.err << "heed: error: " << error.what() << "\n";
  if (!error.hint().empty()) streams.err << "  hint: " << error.hint() << "\n";
  if (json) {
    const nlohmann::ordered_json details{
        {"code", error.code()}, {"exit", error.exit()}, {"message", error.what()}, {"hint", error.hint()}};
    streams.out << nlohmann::ordered_json{{"error", details}}.dump(1) << "\n";
  }
  return error.exit();
}

}  // namespace

int run(const std::vector<std::string>& arguments, Streams streams) {
  // CLI11 takes the arguments from the back.
  std::vector<std::string> reversed;
  for (auto each = arguments.rbegin(); each != arguments.rend(); ++each) reversed.push_back(with_dashes(*each));
  const bool json = std::find(reversed.begin(), reversed.end(), "--json") != reversed.end();

  CLI::App app("Exact multi-head attention for CPUs.", "heed");
  app.set_version_flag("-V,--version", HEED_VERSION);
  app.require_subcommand(1);
  std::function<void()> action;
  add_attend(app, streams, action);
  add_bench(app, streams, action);
  try {
    try {
      app.parse(std::move(reversed));
    } catch (const CLI::Success& success) {
      app.exit(success, streams.out, streams.err);
      return kOk;
    } catch (const CLI::ParseError& error) {
      throw usage_error(app, error);
    }
    action();
    return kOk;
  } catch (const CommandError& error) {
    return report_error(error, json, streams);
  } catch (const std::exception& error) {
    return report_error({"failure", error.what(), "", kFailure}, json, streams);
  }
}

}  // namespace heed::cli
