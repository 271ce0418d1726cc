// Text formatting for a terminal or a file. The command line chooses the style.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::explain {

struct TextStyle {
  int width = 100;   // columns
  bool utf8 = true;  // false: "..." and "-inf" for "…" and "−∞", at their own width; the stream rewrites the rest
  bool color = false;  // SGR sequences
  int digits = 4;      // after the decimal point
};

// The columns that UTF-8 text takes: its number of characters. Heed's own texts have no wide characters.
int columns_of(std::string_view text);

// Pads with spaces before the text, or after it, to `columns` columns.
std::string padded_left(const std::string& text, int columns);
std::string padded_right(const std::string& text, int columns);

// "1 row", "2 rows".
std::string counted(int64_t count, const std::string& one, const std::string& many);
// "a, b, c"
std::string joined(const std::vector<std::string>& parts, const std::string& between);

// Escapes untrusted text (a file name, a key, an argument) for display: control characters are written like \x1b, so
// that they cannot control the terminal.
std::string printable(std::string_view text);

// Truncates to `columns` columns; the last is "…" if something was cut.
std::string shortened(std::string_view text, int columns, const TextStyle& style);

// "…", for omitted content.
std::string left_out(const TextStyle& style);

enum class Paint { bold, dim, red, green, yellow, blue };

// The text in this colour; unchanged without colour.
std::string painted(std::string_view text, Paint paint, const TextStyle& style);

// One number with `digits` decimals, or in scientific notation if that would show no digit of it or be too long. "0"
// only for exactly 0.
std::string number_text(float value, const TextStyle& style);

// Wraps words into lines of style.width columns, each indented by `indent` spaces; the first starts with `first`
// instead.
std::string wrapped(std::string_view text, const std::string& first, int indent, const TextStyle& style);

}  // namespace heed::explain
