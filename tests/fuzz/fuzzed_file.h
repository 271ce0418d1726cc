// The input of a fuzzer as a file, so that readers are tried as they are used, and what every refusal must be like.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "heed/io/file_error.h"

namespace heed::fuzz {

// Ends the program, which the fuzzer reports with the input, unless the rule holds.
inline void require(bool rule) {
  if (!rule) std::abort();
}

// A file in memory: its path can be opened like any other.
class FuzzedFile {
 public:
  FuzzedFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("input", 0)) {
    require(descriptor_ >= 0 && ::write(descriptor_, data, size) == static_cast<ssize_t>(size));
  }
  FuzzedFile(const FuzzedFile&) = delete;
  FuzzedFile& operator=(const FuzzedFile&) = delete;
  ~FuzzedFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// One short line without control characters, about the file that was given.
inline void require_good(const io::FileError& error, const FuzzedFile& file) {
  const std::string text = error.what();
  require(error.path() == file.path() && !error.message().empty() && text.size() < 5000);
  require(std::none_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }));
}

}  // namespace heed::fuzz
