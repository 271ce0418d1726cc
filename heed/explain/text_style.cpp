#include "heed/explain/text_style.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace heed::explain {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U; }

// The number of a "select graphic rendition" sequence.
const char* number_of(Paint paint) {
  switch (paint) {
    case Paint::bold:
      return "1";
    case Paint::dim:
      return "2";
    case Paint::red:
      return "31";
    case Paint::green:
      return "32";
    case Paint::yellow:
      return "33";
    case Paint::blue:
      return "34";
  }
  return "0";
}

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

std::string padded_left(const std::string& text, int columns) {
  return std::string(static_cast<size_t>(std::max(0, columns - columns_of(text))), ' ') + text;
}

std::string padded_right(const std::string& text, int columns) {
  return text + std::string(static_cast<size_t>(std::max(0, columns - columns_of(text))), ' ');
}

std::string counted(int64_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string text;
  for (const std::string& each : parts) text += text.empty() ? each : between + each;
  return text;
}

std::string printable(std::string_view text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // C1 controls are C2 80 … C2 9F in UTF-8.
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xE0) == 0x80;
    const auto control = c1 ? static_cast<unsigned char>(text[++i]) : byte;
    if (!c1 && control >= 0x20 && control != 0x7F) {
      shown += text[i];
    } else {
      shown += {'\\', 'x', kDigits[control >> 4], kDigits[control & 15]};
    }
  }
  return shown;
}

std::string left_out(const TextStyle& style) { return style.utf8 ? "…" : "..."; }

std::string painted(std::string_view text, Paint paint, const TextStyle& style) {
  if (!style.color || text.empty()) return std::string(text);
  return std::string("\x1b[") + number_of(paint) + "m" + std::string(text) + "\x1b[0m";
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
