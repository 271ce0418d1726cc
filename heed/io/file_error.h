// FileError: what is wrong with a file, where, why, and what to do.
#pragma once

#include <string>
#include <string_view>

#include "heed/core/error.h"

namespace heed::io {

struct FileProblem {
  std::string what{};   // what was found and why it is refused
  std::string where{};  // the place inside the file: "byte 8", "tensor 'x'"; empty for the file as a whole
  std::string hint{};   // what to do; may be empty
  int line = 0;         // of a text file, from 1; 0 where there are no lines
};

// A file that cannot be read, written or understood. what() is one line, "message [file:line, place]; hint": the texts
// of files are shown with control characters escaped and cut when they are long.
class FileError : public Error {
 public:
  FileError(std::string path, const FileProblem& problem);

  const std::string& path() const { return path_; }        // as it was given
  const std::string& message() const { return message_; }  // without place and hint
  const std::string& at() const { return at_; }            // "q.npy, byte 8", "notes.toml:3"
  const std::string& hint() const { return hint_; }

 private:
  std::string path_;
  std::string message_;
  std::string at_;
  std::string hint_;
};

// 'text' as it can be shown on one line of a terminal: control characters escaped, at most 100 bytes, in quotes.
std::string in_quotes(std::string_view text);

}  // namespace heed::io
