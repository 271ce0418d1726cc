// How text is to look: for the terminal it goes to, or for a file. The command line decides, explain only obeys.
#pragma once

#include <string>
#include <string_view>

namespace heed::explain {

struct TextStyle {
  int width = 100;  // columns
  bool utf8 = true;  // else "…" and "−∞" are "..." and "-inf", as wide as they come out; the rest the stream rewrites
  bool color = false;  // SGR sequences
  int digits = 4;      // behind the point
};

// Columns that a text takes: one for each character.
int columns_of(std::string_view text);

// At most `columns` columns, the last of them "…" where something was left off.
std::string shortened(std::string_view text, int columns, const TextStyle& style);

// "…", for what is left out.
std::string left_out(const TextStyle& style);

// Bold, or faint; as it is without colour.
std::string bold(const std::string& text, const TextStyle& style);
std::string faint(const std::string& text, const TextStyle& style);

// One number: `digits` behind the point, in powers of ten where that would show nothing of it or be endless; 0 only for
// what is exactly 0.
std::string number_text(float value, const TextStyle& style);

// Words broken into lines of style.width columns, each after `indent` spaces; the first after `first` instead.
std::string wrapped(std::string_view text, const std::string& first, int indent, const TextStyle& style);

}  // namespace heed::explain
