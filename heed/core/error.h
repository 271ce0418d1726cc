// Errors: exceptions that name the function, what was got, what was expected and what to do.
#pragma once

#include <concepts>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "heed/core/shape.h"

namespace heed {

// Every refusal of bad input by the library is an Error; nothing was written when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

namespace detail {

// Shapes print as [2, 3]; a part that can be called is called only now, when the text is needed.
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

// Refuses with fail() unless `rule` holds. The text is composed only when it is needed: pass shapes as they are, not as
// text, so that a call that is right allocates nothing.
template <class... Parts>
void check(bool rule, const char* function, const Parts&... parts) {
  if (!rule) fail(function, parts...);
}

}  // namespace heed
