#include "cli/help.h"

#include <algorithm>
#include <memory>
#include <ostream>
#include <sstream>

#include "cli/option_table.h"
#include "cli/subcommands.h"
#include "cli/usage_error.h"

namespace heed::cli {
namespace {

constexpr int kMostColumns = 110;  // longer lines are hard to read
constexpr int kMostLabel = 30;     // a longer name has a line of its own; also one of a third of the terminal
constexpr size_t kMostValues = 44;
constexpr const char* kEverywhere = "Common options";
constexpr const char* kExitCodesTopic = "exit-codes";

// "-q, --quiet", "--color auto|always|never", "--threads N", "FILE".
std::string label_of(const CLI::Option& option) {
  std::string label;
  for (const std::string& name : option.get_snames()) label += (label.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) label += (label.empty() ? "--" : ", --") + name;
  if (label.empty()) return option.get_name(true);
  if (is_flag(option)) return label;
  const std::string values = CLI::detail::join(values_of(option), "|");
  return label + " " + (values.empty() || values.size() > kMostValues ? type_of(option) : values);
}

std::string text_of(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += " (default: " + option.get_default_str() + ")";
  if (option.get_required()) text += " (required)";
  return text;
}

// Rows of a name and what it means, under a heading.
struct Section {
  std::string title;
  std::vector<std::pair<std::string, std::string>> rows;
};

Section& section(std::vector<Section>& sections, const std::string& title) {
  for (Section& each : sections) {
    if (each.title == title) return each;
  }
  return sections.emplace_back(Section{title, {}});
}

std::vector<Section> sections_of(const CLI::App& app) {
  std::vector<Section> sections;
  for (const CLI::App* command : commands_of(app)) {
    const std::string group = command->get_group() == "Subcommands" ? "Commands" : command->get_group();
    section(sections, group).rows.emplace_back(command->get_name(), command->get_description());
  }
  Section everywhere{kEverywhere, {}};
  const auto own = app.get_parent() == nullptr ? std::vector<const CLI::Option*>() : options_of(app);
  for (const CLI::Option* option : options_with_inherited(app)) {
    const bool common = option == app.get_help_ptr() || std::find(own.begin(), own.end(), option) == own.end();
    const std::string group = option->get_positional() ? "Arguments" : option->get_group();
    (common ? everywhere : section(sections, group)).rows.emplace_back(label_of(*option), text_of(*option));
  }
  sections.push_back(std::move(everywhere));
  return sections;
}

std::string usage_of(const CLI::App& app) {
  std::string usage = path_of(app);
  if (!commands_of(app).empty()) usage += " COMMAND";
  usage += " [OPTIONS]";
  for (const CLI::Option* option : options_of(app)) {
    if (!option->get_positional()) continue;
    const std::string name = option->get_name(true) + (option->get_items_expected_max() > 1 ? "..." : "");
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  return usage;
}

void write_section(const Section& each, const Terminal& terminal, std::ostream& out) {
  const int width = std::min(terminal.width, kMostColumns);
  const int most_label = std::min(kMostLabel, width / 3);
  int label_columns = 0;
  for (const auto& [label, text] : each.rows) {
    if (columns_of(label) <= most_label) label_columns = std::max(label_columns, columns_of(label));
  }
  const int indent = 2 + label_columns + 2;
  out << "\n" << painted(terminal, Paint::bold, each.title + ":") << "\n";
  for (const auto& [label, text] : each.rows) {
    out << "  " << label;
    const int used = 2 + columns_of(label);
    if (used + 2 > indent) {
      out << "\n" << std::string(static_cast<size_t>(indent), ' ');
    } else {
      out << std::string(static_cast<size_t>(indent - used), ' ');
    }
    out << wrapped(text, width, indent) << "\n";
  }
}

// Every command below `app`, itself first.
void collect(const CLI::App& app, std::vector<const CLI::App*>& all) {
  all.push_back(&app);
  for (const CLI::App* command : commands_of(app)) collect(*command, all);
}

std::string exit_codes_text() {
  std::string text;
  for (const auto& [code, meaning] : kExitCodes) {
    const std::string number = std::to_string(code);
    text += std::string(5 - number.size(), ' ') + number + "  " + meaning + "\n";
  }
  return text + "\nWhere the reader of a pipe goes away (heed ... | head -1), Heed ends quietly by SIGPIPE.\n";
}

// The command that the words name; refuses unknown ones.
const CLI::App& find_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* at = &root;
  for (const std::string& word : words) {
    std::vector<std::string> names;
    const CLI::App* next = nullptr;
    for (const CLI::App* command : commands_of(*at)) {
      names.push_back(command->get_name());
      if (command->get_name() == word) next = command;
    }
    if (at == &root) names.emplace_back(kExitCodesTopic);
    if (next == nullptr) {
      const std::string hint = hint_of_names(word, names);
      throw CommandError("usage.unknown_topic", "there is no help on '" + word + "'",
                         hint.empty() ? path_of(*at) + " has no commands of its own" : hint);
    }
    at = next;
  }
  return *at;
}

}  // namespace

std::string help_text(const CLI::App& app, const Terminal& terminal) {
  std::ostringstream out;
  out << painted(terminal, Paint::bold, "Usage:") << " " << usage_of(app) << "\n\n"
      << wrapped(app.get_description(), std::min(terminal.width, kMostColumns), 0) << "\n";
  for (const Section& each : sections_of(app)) write_section(each, terminal, out);
  if (!app.get_footer().empty()) out << "\n" << app.get_footer() << "\n";
  return out.str();
}

std::string manual_markdown(const CLI::App& app) {
  std::vector<const CLI::App*> all;
  collect(app, all);
  std::ostringstream out;
  out << "# The command line\n\nWritten by `tools/docs` from what `heed … --help` prints; do not edit it.\n";
  for (const CLI::App* each : all) {
    out << "\n## " << path_of(*each) << "\n\n```text\n" << help_text(*each, Terminal{}) << "```\n";
  }
  out << "\n## Exit codes\n\n```text\n" << exit_codes_text() << "```\n";
  return out.str();
}

void add_help(CLI::App& app, Streams streams, std::function<void()>& action) {
  struct Flags {
    std::vector<std::string> words;
    bool markdown = false;
  };
  const auto flags = std::make_shared<Flags>();
  CLI::App* help = app.add_subcommand("help", "help on a command, or the list of exit codes");
  const auto topics = [&app] {
    std::vector<std::string> names;
    for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
    names.emplace_back(kExitCodesTopic);
    return names;
  };
  known_names(help->add_option("TOPIC", flags->words, "a command, such as `bench attention`; or `exit-codes`"), topics);
  help->add_flag("--markdown", flags->markdown, "the whole manual as Markdown: docs/cli.md");
  help->footer("Examples:\n  heed help bench attention\n  heed help exit-codes");
  help->callback([=, &app, &action] {
    action = [=, &app] {
      if (flags->markdown) {
        streams.out << manual_markdown(app);
      } else if (flags->words == std::vector<std::string>{kExitCodesTopic}) {
        streams.out << exit_codes_text();
      } else {
        streams.out << help_text(find_command(app, flags->words), streams.out_terminal);
      }
    };
  });
}

}  // namespace heed::cli
