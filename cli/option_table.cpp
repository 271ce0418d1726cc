#include "cli/option_table.h"

#include <algorithm>

namespace heed::cli {

const CLI::App& innermost(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

std::string path_of(const CLI::App& app) {
  return app.get_parent() ? path_of(*app.get_parent()) + " " + app.get_name() : "heed";
}

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands(
      [](const CLI::App* each) { return !each->get_name().empty() && !each->get_group().empty(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  auto options = app.get_options([](const CLI::Option* each) { return !each->get_group().empty(); });
  // Groups of options are subcommands without a name.
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* each) { return each->get_name().empty(); })) {
    const auto inside = options_of(*group);
    options.insert(options.end(), inside.begin(), inside.end());
  }
  return options;
}

std::vector<const CLI::Option*> options_with_inherited(const CLI::App& app) {
  std::vector<const CLI::Option*> all = options_of(app);
  if (app.get_parent() == nullptr) return all;
  for (const CLI::Option* option : options_with_inherited(*app.get_parent())) {
    const bool hidden = std::any_of(all.begin(), all.end(),
                                    [&](const CLI::Option* nearer) { return name_of(*nearer) == name_of(*option); });
    if (!hidden && !option->get_positional()) all.push_back(option);
  }
  return all;
}

std::string name_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  if (!option.get_snames().empty()) return "-" + option.get_snames().front();
  return option.get_name(true);
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

// A type name is "TYPE:{value,value}".
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos || end <= begin + 1) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

std::string type_of(const CLI::Option& option) {
  if (is_flag(option)) return "";
  const std::string type = option.get_type_name();
  // What a check adds has braces or spaces, "N:INT in [0 - 9]"; the colon of "A:B" is the type's own.
  const size_t colon = type.find(':');
  const bool checked = colon != std::string::npos && type.find_first_of("{ ", colon) != std::string::npos;
  std::string own = checked ? type.substr(0, colon) : type;
  if (own == "INT" || own == "UINT") return "N";
  if (own == "FLOAT") return "X";
  return own;
}

bool takes_file(const CLI::Option& option) {
  const std::string kind = option.get_positional() ? option.get_name(true) : type_of(option);
  return kind.rfind("FILE", 0) == 0;
}

CLI::Option* known_names(CLI::Option* option, std::function<std::vector<std::string>()> names) {
  return option->type_name_fn([names = std::move(names)] { return "NAME:{" + CLI::detail::join(names(), ",") + "}"; });
}

}  // namespace heed::cli
