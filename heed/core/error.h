// Errors: exceptions that name the function, what was got, what was expected and what to do.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace heed {

// Every refusal of bad input by the library is an Error; nothing was written when it is thrown.
class Error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// Throws Error with "function: part part …". The parts are streamed one after the other.
template <class... Parts>
[[noreturn]] void fail(const char* function, const Parts&... parts) {
  std::ostringstream text;
  text << function << ": ";
  (text << ... << parts);
  throw Error(text.str());
}

// Refuses with fail() unless `rule` holds. The text is composed only when it is needed.
template <class... Parts>
void check(bool rule, const char* function, const Parts&... parts) {
  if (!rule) fail(function, parts...);
}

}  // namespace heed
