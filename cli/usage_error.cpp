#include "cli/usage_error.h"

#include <algorithm>

#include "cli/option_table.h"
#include "heed/core/suggest.h"

namespace heed::cli {
namespace {

template <class Kind>
bool is(const CLI::ParseError& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

// What may stand where an unknown word stood.
std::vector<std::string> names_at(const CLI::App& at) {
  std::vector<std::string> names;
  for (const CLI::App* command : commands_of(at)) names.push_back(command->get_name());
  for (const CLI::Option* option : options_with_inherited(at)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The option whose name the message begins with, or has after `before`; null where none is.
const CLI::Option* option_in(const CLI::App& at, const std::string& message, const std::string& before = "") {
  const CLI::Option* longest = nullptr;
  for (const CLI::Option* option : options_with_inherited(at)) {
    if (message.rfind(before + name_of(*option), 0) != 0) continue;
    if (longest == nullptr || name_of(*option).size() > name_of(*longest).size()) longest = option;
  }
  return longest;
}

std::string kind_of_value(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (type.rfind("INT", 0) == 0) return "a whole number";
  if (type.rfind("UINT", 0) == 0) return "a whole number that is not negative";
  if (type.rfind("FLOAT", 0) == 0) return "a number";
  return "what it takes";
}

// "Could not convert: --threads = many"
CommandError conversion_error(const CLI::App& at, const std::string& message, const std::string& see_help) {
  const CLI::Option* option = option_in(at, message, "Could not convert: ");
  const size_t equals = message.find(" = ");
  if (option == nullptr || equals == std::string::npos) return {"usage.bad_argument", message, see_help};
  return {"usage.bad_value",
          name_of(*option) + " is '" + message.substr(equals + 3) + "', which is not " + kind_of_value(*option),
          see_help};
}

CommandError missing_value(const CLI::App& at, const CLI::Option& option, const std::string& see_help) {
  const std::string name = name_of(option);
  const bool flag = !option.get_positional();
  return {"usage.missing_value", flag ? name + " needs a value" : path_of(at) + " was given an empty " + name,
          see_help};
}

constexpr const char* kEmptyValue = "the value is empty";

// "--normalizer: softmx not in {softmax,sigmoid}", or what another validator says after the name.
CommandError validation_error(const CLI::App& at, const std::string& message, const std::string& see_help) {
  const CLI::Option* option = option_in(at, message);
  if (option != nullptr && message.ends_with(std::string(": ") + kEmptyValue))
    return missing_value(at, *option, see_help);
  const size_t not_in = message.rfind(" not in {");
  const size_t colon = message.find(": ");
  if (option == nullptr || not_in == std::string::npos || colon == std::string::npos) {
    return {"usage.bad_value", message, see_help};
  }
  const std::string value = message.substr(colon + 2, not_in - colon - 2);
  return {"usage.unknown_value", name_of(*option) + " does not know '" + value + "'",
          hint_of_names(value, values_of(*option))};
}

// "--threads: 1 required INT missing", "--isa: At Most 1 required but received 2"
CommandError mismatch_error(const CLI::App& at, const std::string& message, const std::string& see_help) {
  const CLI::Option* option = option_in(at, message);
  if (option == nullptr) return {"usage.bad_argument", message, see_help};
  const bool missing = message.size() > 8 && message.substr(message.size() - 8) == " missing";
  if (missing) return missing_value(at, *option, see_help);
  if (message.find("At Most 1 ") != std::string::npos) {
    return {"usage.repeated", name_of(*option) + " was given more than once", "give it once"};
  }
  return {"usage.bad_argument", message, see_help};
}

}  // namespace

void refuse_empty_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options([](CLI::Option* each) { return !is_flag(*each); })) {
    // transform() puts the check before those that are there.
    option->transform(
        CLI::Validator([](std::string& value) { return std::string(value.empty() ? kEmptyValue : ""); }, ""));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) refuse_empty_values(*command);
}

std::string hint_of_names(const std::string& word, const std::vector<std::string>& names) {
  std::string near = did_you_mean(word, names);
  if (!near.empty() || names.empty()) return near;
  std::string list = "give " + names.front();
  for (size_t i = 1; i < names.size(); ++i) list += (i + 1 == names.size() ? " or " : ", ") + names[i];
  return list;
}

CommandError usage_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& at = innermost(app);
  const std::string see_help = path_of(at) + " --help lists what it takes";
  const std::vector<std::string> left = app.remaining(true);
  if ((is<CLI::RequiredError>(error) || is<CLI::ExtrasError>(error)) && !left.empty()) {
    const std::string& word = left.front();
    if (word.empty()) return {"usage.empty_argument", path_of(at) + " was given an empty argument", see_help};
    const std::string near = did_you_mean(word.substr(0, word.find('=')), names_at(at));
    return {"usage.unknown_argument", path_of(at) + " does not know '" + word + "'", near.empty() ? see_help : near};
  }
  std::string message = error.what();
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (is<CLI::RequiredError>(error)) {
    if (message == "A subcommand is required") return {"usage.no_command", path_of(at) + " needs a command", see_help};
    const CLI::Option* option = option_in(at, message);
    if (option != nullptr) return {"usage.missing", path_of(at) + " needs " + name_of(*option), see_help};
  }
  if (is<CLI::ConversionError>(error)) return conversion_error(at, message, see_help);
  if (is<CLI::ValidationError>(error)) return validation_error(at, message, see_help);
  if (is<CLI::ArgumentMismatch>(error)) return mismatch_error(at, message, see_help);
  return {"usage.bad_argument", message, see_help};
}

}  // namespace heed::cli
