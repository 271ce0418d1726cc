// What a stream can show: colour, characters beyond ASCII, columns. Found once; a plain value that tests can force.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "heed/explain/text_style.h"

namespace heed::cli {

// The defaults are those of a stream inside a program: UTF-8 without colour.
struct Terminal {
  bool interactive = false;  // a person watches: lines may be drawn over, unless TERM is dumb
  bool color = false;
  bool utf8 = true;  // otherwise what is written comes out in ASCII (cli/ascii.h)
  int width = 100;   // columns
};

// What is known of a stream without asking the user.
struct StreamFacts {
  bool is_terminal = false;
  int columns = 0;  // of the terminal; 0 where it does not tell
};
StreamFacts facts_of(int file_descriptor);

// The value of an environment variable; empty where it is not set.
using Environment = std::function<std::string(const char* name)>;
std::string process_environment(const char* name);

// Colour, where --color does not decide: NO_COLOR (not empty) takes it away, FORCE_COLOR or CLICOLOR_FORCE (neither
// empty nor 0) adds it, and a terminal has it unless TERM is dumb.
// UTF-8: the first of LC_ALL, LC_CTYPE and LANG that is set decides.
// Width: COLUMNS, then what the terminal says, then 80 on a terminal and 100 elsewhere; at least 40.
Terminal terminal_of(const StreamFacts& facts, const Environment& environment);

// The style of explain's texts that this stream can show; `digits` behind the point.
explain::TextStyle style_of(const Terminal& terminal, int digits = explain::TextStyle{}.digits);

using explain::columns_of;
using explain::Paint;
using explain::printable;

// The text in this paint; as it is where the stream has no colour.
std::string painted(const Terminal& terminal, Paint paint, std::string_view text);

// The text in lines of at most `width` columns, each after the first indented. Line breaks in the text stay.
std::string wrapped(const std::string& text, int width, int indent);

}  // namespace heed::cli
