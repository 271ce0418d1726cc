#include "cli/complete.h"

#include <algorithm>
#include <set>

#include "cli/option_table.h"

namespace heed::cli {
namespace {

// Where the words before the cursor have led.
struct Place {
  const CLI::App* command = nullptr;
  const CLI::Option* waiting = nullptr;  // an option that takes the next word as its value
  std::set<const CLI::Option*> given;
  size_t arguments = 0;       // positional ones so far
  bool options_over = false;  // after --
};

bool has_name(const CLI::Option& option, const std::string& word) {
  const auto matches = [&](const std::vector<std::string>& names, const std::string& dashes) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return dashes + name == word; });
  };
  return matches(option.get_lnames(), "--") || matches(option.get_snames(), "-");
}

const CLI::Option* find_option(const CLI::App& command, const std::string& word) {
  for (const CLI::Option* option : options_with_inherited(command)) {
    if (has_name(*option, word)) return option;
  }
  return nullptr;
}

bool is_option(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

void step(Place& place, const std::string& word) {
  if (place.waiting != nullptr) {
    if (word != "=") place.waiting = nullptr;  // bash cuts --isa=avx2 into three words
    return;
  }
  if (word == "--") {
    place.options_over = true;
  } else if (is_option(word) && !place.options_over) {
    const size_t equals = word.find('=');
    const CLI::Option* option = find_option(*place.command, word.substr(0, equals));
    if (option == nullptr) return;
    place.given.insert(option);
    if (equals == std::string::npos && !is_flag(*option)) place.waiting = option;
  } else {
    for (const CLI::App* command : commands_of(*place.command)) {
      if (command->get_name() != word) continue;
      place.command = command;
      return;
    }
    ++place.arguments;
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Adds `word` where it begins with what is typed.
void offer(Completions& found, const std::string& typed, const std::string& word, const std::string& about) {
  if (word.rfind(typed, 0) == 0) found.words.push_back({word, first_line(about)});
}

// The values of an option, each after `before` ("--isa=" or nothing) and after those of a list that are typed already.
void offer_values(Completions& found, const CLI::Option& option, const std::string& typed,
                  const std::string& before = "") {
  const size_t comma = option.get_delimiter() == '\0' ? std::string::npos : typed.rfind(option.get_delimiter());
  const std::string done = comma == std::string::npos ? before : before + typed.substr(0, comma + 1);
  for (const std::string& value : values_of(option)) offer(found, before + typed, done + value, "");
  found.files = found.files || takes_file(option);
}

void offer_options(Completions& found, const Place& place, const std::string& typed) {
  for (const CLI::Option* option : options_with_inherited(*place.command)) {
    const bool again = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    if (option->get_positional() || (place.given.count(option) > 0 && !again)) continue;
    offer(found, typed, name_of(*option), option->get_description());
  }
}

// Positional arguments; the last one takes what follows where it takes many.
const CLI::Option* argument_at(const CLI::App& command, size_t index) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : options_of(command)) {
    if (!option->get_positional()) continue;
    last = option;
    if (index-- == 0) return option;
  }
  return last != nullptr && last->get_items_expected_max() > 1 ? last : nullptr;
}

}  // namespace

Completions complete(const CLI::App& root, const std::vector<std::string>& words) {
  Completions found;
  if (words.empty()) return found;
  Place place;
  place.command = &root;
  std::for_each(words.begin(), words.end() - 1, [&](const std::string& word) { step(place, word); });
  const std::string& typed = words.back();
  if (place.waiting != nullptr) {
    offer_values(found, *place.waiting, typed == "=" ? "" : typed);
    return found;
  }
  const size_t equals = typed.find('=');
  if (is_option(typed) && equals != std::string::npos && !place.options_over) {
    const CLI::Option* option = find_option(*place.command, typed.substr(0, equals));
    if (option != nullptr) offer_values(found, *option, typed.substr(equals + 1), typed.substr(0, equals + 1));
    return found;
  }
  if (!typed.empty() && typed[0] == '-' && !place.options_over) {
    offer_options(found, place, typed);
    return found;
  }
  for (const CLI::App* command : commands_of(*place.command)) {
    offer(found, typed, command->get_name(), command->get_description());
  }
  const CLI::Option* argument = argument_at(*place.command, place.arguments);
  if (argument != nullptr) offer_values(found, *argument, typed);
  return found;
}

std::string to_lines(const Completions& completions) {
  std::string lines = completions.files ? ":files\n" : "";
  for (const auto& [text, about] : completions.words) {
    lines.append(text).append(about.empty() ? "" : "\t").append(about).append("\n");
  }
  return lines;
}

}  // namespace heed::cli
