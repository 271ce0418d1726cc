#include "heed/explain/text_style.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace heed::explain {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

}  // namespace

int columns_of(std::string_view text) {
  int columns = 0;
  for (const char byte : text) columns += continues_character(byte) ? 0 : 1;
  return columns;
}

std::string shortened(std::string_view text, int columns, const TextStyle& style) {
  if (columns_of(text) <= columns) return std::string(text);
  const std::string mark = left_out(style);
  const int kept = columns - columns_of(mark);
  std::string result;
  int seen = 0;
  for (const char byte : text) {
    seen += continues_character(byte) ? 0 : 1;
    if (seen > kept) break;
    result += byte;
  }
  return result + mark;
}

std::string left_out(const TextStyle& style) { return style.utf8 ? "…" : "..."; }

std::string bold(const std::string& text, const TextStyle& style) {
  return style.color ? "\x1b[1m" + text + "\x1b[0m" : text;
}
std::string faint(const std::string& text, const TextStyle& style) {
  return style.color ? "\x1b[2m" + text + "\x1b[0m" : text;
}

std::string number_text(float value, const TextStyle& style) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (style.utf8 ? "∞" : "inf");
  if (value == 0.0F) return "0";
  const double size = std::abs(static_cast<double>(value));
  const bool by_powers = size >= 1e6 || size < 0.5 * std::pow(10.0, -style.digits);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), by_powers ? "%.*e" : "%.*f", by_powers ? 2 : style.digits,
                static_cast<double>(value));
  return text.data();
}

std::string wrapped(std::string_view text, const std::string& first, int indent, const TextStyle& style) {
  std::string result = first;
  int column = columns_of(first);
  bool fresh = true;  // nothing on this line yet
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!fresh && column + 1 + columns_of(word) > style.width) {
      result.append("\n").append(static_cast<size_t>(indent), ' ');
      column = indent;
      fresh = true;
    }
    if (!fresh) ++column, result += ' ';
    result += word;
    column += columns_of(word);
    fresh = false;
  }
  return result + "\n";
}

}  // namespace heed::explain
