// FileMapping: the bytes of a file in memory without a copy, read-only. Internal to heed/io.
#pragma once

#include <cstddef>
#include <span>

#include "heed/io/file.h"

namespace heed::io {

// Maps a file from its first byte, which is page-aligned, to the size that it had when it was opened; a FileError if
// it is shorter by now. Outlives the InputFile.
class FileMapping {
 public:
  explicit FileMapping(const InputFile& file);
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;
  ~FileMapping();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace heed::io
