// FileError: what is wrong with a file, where, why, and how to fix it.
#pragma once

#include <string>
#include <string_view>

#include "heed/core/error.h"

namespace heed::io {

struct FileProblem {
  std::string what{};   // what was found and why it is an error
  std::string where{};  // the place in the file: "byte 8", "tensor 'x'"; empty for the whole file
  std::string hint{};   // what to do; may be empty
  int line = 0;         // of a text file, from 1; 0 if not applicable
};

// A file that cannot be read, written or parsed. what() is one line, "message [file:line, place]; hint". Quoted file
// contents have control characters escaped and are truncated if long.
class FileError : public Error {
 public:
  FileError(std::string path, const FileProblem& problem);

  const std::string& path() const { return path_; }        // as given
  const std::string& message() const { return message_; }  // without place and hint
  const std::string& at() const { return at_; }            // "q.npy, byte 8", "notes.toml:3"
  const std::string& hint() const { return hint_; }

 private:
  std::string path_;
  std::string message_;
  std::string at_;
  std::string hint_;
};

// 'text' in quotes, safe to show on one terminal line: control characters escaped, at most 100 bytes.
std::string in_quotes(std::string_view text);

}  // namespace heed::io
