// Refusals: an Error that says what was wrong.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "heed/core/error.h"

namespace heed::test {

// call() throws an Error that has all of `parts` in its text.
template <class Call>
void expect_error(Call call, std::initializer_list<const char*> parts) {
  try {
    call();
    FAIL() << "no error";
  } catch (const Error& error) {
    for (const char* part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "\"" << part << "\" in: " << error.what();
    }
  }
}

}  // namespace heed::test
