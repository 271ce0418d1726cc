// How text is to look: for the terminal it goes to, or for a file. The command line decides, explain only obeys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::explain {

struct TextStyle {
  int width = 100;  // columns
  bool utf8 = true;  // else "…" and "−∞" are "..." and "-inf", as wide as they come out; the rest the stream rewrites
  bool color = false;  // SGR sequences
  int digits = 4;      // behind the point
};

// Columns that UTF-8 text takes: its characters. Heed's own texts have no wide ones.
int columns_of(std::string_view text);

// Spaces before the text, or behind it, until it takes `columns` columns.
std::string padded_left(const std::string& text, int columns);
std::string padded_right(const std::string& text, int columns);

// "1 row", "2 rows".
std::string counted(int64_t count, const std::string& one, const std::string& many);
// "a, b, c"
std::string joined(const std::vector<std::string>& parts, const std::string& between);

// Text from outside (a file's name, a key, an argument) for a person to read: control characters are written as \x1b,
// so that they cannot steer the terminal.
std::string printable(std::string_view text);

// At most `columns` columns, the last of them "…" where something was left off.
std::string shortened(std::string_view text, int columns, const TextStyle& style);

// "…", for what is left out.
std::string left_out(const TextStyle& style);

enum class Paint { bold, dim, red, green, yellow, blue };

// The text in this paint; as it is without colour.
std::string painted(std::string_view text, Paint paint, const TextStyle& style);

// One number: `digits` behind the point, in powers of ten where that would show nothing of it or be endless; 0 only for
// what is exactly 0.
std::string number_text(float value, const TextStyle& style);

// Words broken into lines of style.width columns, each after `indent` spaces; the first after `first` instead.
std::string wrapped(std::string_view text, const std::string& first, int indent, const TextStyle& style);

}  // namespace heed::explain
