#include "heed/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "heed/core/suggest.h"
#include "heed/io/path_text.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;

// The file of the same directory whose name is nearest to that of `path`, as a hint.
std::string nearest_file(const std::string& path) {
  constexpr size_t kMostNames = 10000;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory_of(path), error), end; !error && entry != end; entry.increment(error)) {
    if (names.size() == kMostNames) break;
    names.push_back(entry->path().filename().string());
  }
  return did_you_mean(fs::path(path).filename().string(), names);
}

[[noreturn]] void fail_to_open(const std::string& path, int error) {
  std::error_code ignored;
  if (error == ENOENT && !fs::is_directory(directory_of(path), ignored)) {
    throw FileError(path, {.what = "no such directory: " + in_quotes(directory_of(path)), .hint = "check the path"});
  }
  if (error == ENOENT) {
    const std::string near = nearest_file(path);
    throw FileError(path, {.what = "no such file", .hint = near.empty() ? "check the path" : near});
  }
  throw FileError(path, {.what = "cannot read the file: " + system_text(error)});
}

void check_file_name(const std::string& path) {
  if (path.empty()) throw FileError(path, {.what = "the path of the file is empty"});
  if (path.find('\0') != std::string::npos)
    throw FileError(path, {.what = "the path of the file contains a zero byte"});
}

// The names of temporary files that are there now, for the handler of a signal, which may come at any moment and on any
// thread: what takes a name out of its place owns it. Names beyond these places are not noted.
std::array<std::atomic<char*>, 16> noted_names{};
static_assert(std::atomic<char*>::is_always_lock_free);

// The place of the name, or noted_names.size() and more.
size_t note(const std::string& name) {
  char* copy = ::strdup(name.c_str());
  size_t place = 0;
  for (char* none = nullptr; place < noted_names.size(); ++place, none = nullptr) {
    if (noted_names[place].compare_exchange_strong(none, copy)) return place;
  }
  ::free(copy);
  return place;
}

// fsync: 0 or an errno. A file system that has no fsync (EINVAL) is taken as it is.
int sync_to_disk(int descriptor) {
  int error = 0;
  do {
    error = ::fsync(descriptor) == 0 ? 0 : errno;
  } while (error == EINTR);
  return error == EINVAL ? 0 : error;
}

void forget(size_t place) {
  if (place < noted_names.size()) ::free(noted_names[place].exchange(nullptr));
}

}  // namespace

void remove_temporaries() {
  for (std::atomic<char*>& each : noted_names) {
    // Not freed: a handler must not, and the program ends.
    if (const char* name = each.exchange(nullptr)) ::unlink(name);
  }
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  check_file_name(path_);
  // Opening a pipe without a writer would wait.
  descriptor_ = Descriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (descriptor_.number() < 0) fail_to_open(path_, errno);
  struct stat status {};
  if (::fstat(descriptor_.number(), &status) != 0) fail_to_open(path_, errno);
  if (S_ISDIR(status.st_mode)) {
    throw FileError(path_, {.what = "a directory, not a file", .hint = "give a file inside of it"});
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError(path_, {.what = "a pipe or device, not a regular file", .hint = "write it to a file first"});
  }
  size_ = status.st_size;
}

void InputFile::read(int64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_.number(), into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    const std::string where = "byte " + std::to_string(offset);
    if (got < 0) throw FileError(path_, {.what = "cannot read the file: " + system_text(errno), .where = where});
    if (got == 0) throw FileError(path_, {.what = "the file became shorter while it was read", .where = where});
    offset += got;
    into = into.subspan(static_cast<size_t>(got));
  }
}

std::string InputFile::read(int64_t offset, int64_t count) const {
  std::string bytes(static_cast<size_t>(count), '\0');
  read(offset, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

std::string read_file(const std::string& path, int64_t most_bytes) {
  const InputFile file(path);
  if (file.size() > most_bytes) {
    throw FileError(path, {.what = "the file has " + std::to_string(file.size()) + " bytes; at most " +
                                   std::to_string(most_bytes) + " are read",
                           .hint = "is it the right file?"});
  }
  return file.read(0, file.size());
}

OutputFile::OutputFile(const std::string& path) : target_(output_target(path)) {
  if (target_.kind == OutputKind::replaced) {
    open_temporary();
    // The new file keeps the permissions of the one it replaces, where it may.
    if (target_.exists) static_cast<void>(::fchmod(descriptor_.number(), target_.mode & 0777));
    return;
  }
  // A copy of the descriptor writes on where the shell's `>> log` or an earlier write left off; opening the file behind
  // it anew would begin at its first byte.
  const int append = S_ISREG(target_.mode) ? O_APPEND : 0;
  descriptor_ = Descriptor(target_.kind == OutputKind::descriptor
                               ? ::fcntl(target_.descriptor, F_DUPFD_CLOEXEC, 0)
                               : ::open(target_.target.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | append));
  if (descriptor_.number() < 0) fail_to_write(errno);
}

void OutputFile::fail_to_write(int error) const {
  throw FileError(target_.given, {.what = "cannot write the file: " + system_text(error)});
}

void OutputFile::open_temporary() {
  static std::atomic<unsigned> counter{0};
  constexpr int kTries = 100;
  int error = EEXIST;
  for (int i = 0; i < kTries && error == EEXIST; ++i) {
    temporary_ = target_.target + "." + std::to_string(::getpid()) + "-" + std::to_string(counter++) + ".tmp";
    noted_ = note(temporary_);
    descriptor_ = Descriptor(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (descriptor_.number() >= 0) return;
    error = errno;
    forget(noted_);
  }
  temporary_.clear();
  throw FileError(
      target_.given,
      {.what = "cannot write the file: " + system_text(error),
       .hint = "a file is made beside it first, with a longer name: " + in_quotes(target_.target) + ".…tmp"});
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  ::unlink(temporary_.c_str());
  forget(noted_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_.number(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_to_write(errno);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void OutputFile::write(std::string_view bytes) { write(std::as_bytes(std::span(bytes))); }

void OutputFile::commit() {
  if (!temporary_.empty()) {
    if (const int error = sync_to_disk(descriptor_.number())) fail_to_write(error);
  }
  // Some file systems report a full disk only here.
  if (::close(descriptor_.release()) != 0) fail_to_write(errno);
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), target_.target.c_str()) != 0) fail_to_write(errno);
  forget(noted_);
  temporary_.clear();
  sync_directory();
}

void OutputFile::sync_directory() const {
  const Descriptor directory(::open(directory_of(target_.target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const int error = directory.number() < 0 ? errno : sync_to_disk(directory.number());
  if (error == 0 || error == EACCES) return;
  throw FileError(target_.given, {.what = "the file is written, but a power failure may undo it: " + system_text(error),
                                  .where = "fsync of its directory"});
}

void write_file(const std::string& path, std::string_view bytes) {
  OutputFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace heed::io
