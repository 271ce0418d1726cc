// Files: positional reads that report every failure, and atomic, durable writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "heed/io/file_error.h"
#include "heed/io/output_target.h"

namespace heed::io {

// The whole file as text; a file of more than `most_bytes` is an error.
std::string read_file(const std::string& path, int64_t most_bytes);

// Replaces the file at `path` with `bytes` atomically: readers see the old file or the new one, and the old one is kept
// after an error. A symbolic link is kept, and the file it points to is replaced. A device, a pipe or an open file
// (/dev/null, /dev/stdout, /dev/fd/3) is written to directly. output_target.h defines the cases and the errors.
void write_file(const std::string& path, std::string_view bytes);

// Owns a file descriptor and closes it on destruction. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

// A regular file opened for reading. Directories, pipes and devices are rejected, so that no read blocks.
class InputFile {
 public:
  explicit InputFile(std::string path);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened
  int descriptor() const { return descriptor_.number(); }

  // Fills `into` with the bytes from `offset` on; an error if the file is too short.
  void read(int64_t offset, std::span<std::byte> into) const;

  // The bytes [offset, offset + count).
  std::string read(int64_t offset, int64_t count) const;

 private:
  std::string path_;
  Descriptor descriptor_;
  int64_t size_ = 0;
};

// A file that appears under its path only when commit() is called. Until then it is a temporary file in the same
// directory, which is removed on destruction or by remove_temporaries(). A target that is written to directly (a
// device, a pipe, an open file) gets the bytes at once.
//
// After commit() the file also survives a power failure: its bytes are on the disk before it takes its name (fsync,
// rename), and the name before commit() returns (fsync of the directory, if it may be opened for reading). Without the
// first, a file system may keep the new name and lose the bytes, and the old file is gone too.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view bytes);
  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  static constexpr size_t kNotNoted = static_cast<size_t>(-1);

  void open_temporary();
  void sync_directory() const;
  [[noreturn]] void fail_to_write(int error) const;

  OutputTarget target_;
  std::string temporary_;     // empty if the target is written to directly
  size_t noted_ = kNotNoted;  // slot where remove_temporaries() finds its name
  Descriptor descriptor_;
};

// Removes the temporary files of all OutputFiles, which can no longer be committed. For programs about to exit; safe to
// call from a signal handler.
void remove_temporaries();

}  // namespace heed::io
