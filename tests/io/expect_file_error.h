// Refusals of files: a FileError with its parts.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "heed/io/file_error.h"

namespace heed::test {

// call() throws a FileError about `path` that has all of `parts` in its text, one line, and `hint` in its hint.
inline void expect_file_error(const std::function<void()>& call, const std::string& path,
                              const std::vector<std::string>& parts, const std::string& hint = "") {
  try {
    call();
    ADD_FAILURE() << "not refused: " << path;
  } catch (const io::FileError& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.path(), path);
    EXPECT_EQ(text, error.message() + " [" + error.at() + "]" + (error.hint().empty() ? "" : "; " + error.hint()));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(error.at().find(path), std::string::npos) << error.at();
    EXPECT_NE(error.hint().find(hint), std::string::npos) << "'" << hint << "' in: " << error.hint();
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
  }
}

}  // namespace heed::test
