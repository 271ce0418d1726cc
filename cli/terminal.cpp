#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <sstream>

namespace heed::cli {
namespace {

constexpr int kLeastWidth = 40;
constexpr int kMostWidth = 1000;

bool is_on(const std::string& value) { return !value.empty() && value != "0"; }

bool has_color(const StreamFacts& facts, const Environment& environment) {
  if (!environment("NO_COLOR").empty()) return false;
  if (is_on(environment("FORCE_COLOR")) || is_on(environment("CLICOLOR_FORCE"))) return true;
  return facts.is_terminal && environment("TERM") != "dumb";
}

bool has_utf8(const Environment& environment) {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    locale = environment(name);
    if (!locale.empty()) break;
  }
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

// A positive whole number; 0 for anything else.
int number_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

int width_of(const StreamFacts& facts, const Environment& environment) {
  int width = number_of(environment("COLUMNS"));
  if (width == 0) width = facts.columns;
  if (width == 0) width = facts.is_terminal ? 80 : 100;
  return std::clamp(width, kLeastWidth, kMostWidth);
}

}  // namespace

StreamFacts facts_of(int file_descriptor) {
  StreamFacts facts;
  facts.is_terminal = isatty(file_descriptor) == 1;
  winsize size{};
  if (facts.is_terminal && ioctl(file_descriptor, TIOCGWINSZ, &size) == 0) facts.columns = size.ws_col;
  return facts;
}

std::string process_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Terminal terminal_of(const StreamFacts& facts, const Environment& environment) {
  Terminal terminal;
  terminal.interactive = facts.is_terminal && environment("TERM") != "dumb";
  terminal.color = has_color(facts, environment);
  terminal.utf8 = has_utf8(environment);
  terminal.width = width_of(facts, environment);
  return terminal;
}

explain::TextStyle style_of(const Terminal& terminal, int digits) {
  return {terminal.width, terminal.utf8, terminal.color, digits};
}

std::string painted(const Terminal& terminal, Paint paint, std::string_view text) {
  return explain::painted(text, paint, style_of(terminal));
}

std::string wrapped(const std::string& text, int width, int indent) {
  const std::string margin(static_cast<size_t>(indent), ' ');
  std::string lines;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    if (!lines.empty()) lines += "\n" + margin;
    int column = 0;
    std::istringstream words(paragraph);
    for (std::string word; words >> word;) {
      if (column > 0 && indent + column + 1 + columns_of(word) > width) {
        lines += "\n" + margin;
        column = 0;
      }
      lines += (column > 0 ? " " : "") + word;
      column += (column > 0 ? 1 : 0) + columns_of(word);
    }
  }
  return lines;
}

}  // namespace heed::cli
