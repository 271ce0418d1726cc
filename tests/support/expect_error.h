// Refusals: an Error that says what was wrong.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "heed/core/error.h"

namespace heed::test {

// call() throws an Error that has all of `parts` in its text.
template <class Parts>
void expect_error_with(const std::function<void()>& call, const Parts& parts) {
  try {
    call();
    ADD_FAILURE() << "not refused";
  } catch (const Error& error) {
    const std::string text = error.what();
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
  }
}

inline void expect_error(const std::function<void()>& call, std::initializer_list<const char*> parts) {
  expect_error_with(call, parts);
}

// The same, and the text begins with the function's name.
inline void expect_error(const std::string& function, const std::function<void()>& call,
                         const std::vector<std::string>& parts) {
  SCOPED_TRACE(function);
  expect_error_with(
      [&] {
        try {
          call();
        } catch (const Error& error) {
          EXPECT_EQ(std::string(error.what()).rfind(function + ": ", 0), 0U) << error.what();
          throw;
        }
      },
      parts);
}

}  // namespace heed::test
