// Errors: exceptions that name the function, the value received, the value expected and what to do.
#pragma once

#include <concepts>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "heed/core/shape.h"

namespace heed {

// Thrown for every invalid input. No output has been written when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

// Shapes print as [2, 3]. A callable part is called only here, when the text is needed.
template <class Part>
void put_part(std::ostream& text, const Part& part) {
  if constexpr (std::invocable<const Part&>) {
    text << part();
  } else if constexpr (requires { part.begin(); } && !std::convertible_to<const Part&, std::string_view>) {
    text << to_text(part);
  } else {
    text << part;
  }
}

}  // namespace detail

// Throws Error with "function: part part …". The parts are streamed one after the other.
template <class... Parts>
[[noreturn]] void fail(const char* function, const Parts&... parts) {
  std::ostringstream text;
  text << function << ": ";
  (detail::put_part(text, parts), ...);
  throw Error(text.str());
}

// Calls fail() unless `rule` holds. The text is composed only on failure: pass shapes themselves, not their text, so
// that a valid call allocates nothing.
template <class... Parts>
void check(bool rule, const char* function, const Parts&... parts) {
  if (!rule) fail(function, parts...);
}

}  // namespace heed
