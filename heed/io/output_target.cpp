#include "heed/io/output_target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "heed/io/path_text.h"

namespace heed::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux has it

[[noreturn]] void refuse(const std::string& path, const std::string& why, const std::string& hint = "") {
  throw FileError(path, {.what = "cannot write the file: " + why, .hint = hint});
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

// Resolves symbolic links as far as possible: the directory without links, then the name. Links in /proc are open
// files, not names, and are not followed: /dev/stdout becomes /proc/123/fd/1, whatever that refers to.
fs::path followed(const std::string& path) {
  fs::path at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code error;
    const fs::path directory = fs::canonical(directory_of(at), error);
    if (error) return at;
    at = directory / at.filename();
    if (directory.string().rfind("/proc/", 0) == 0) return at;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return at;  // no link
    at = next.is_absolute() ? next : directory / next;
  }
  return at;
}

// The number of an open file of this process, where that is what the path names.
std::optional<int> own_descriptor(const fs::path& at) {
  const std::string process = "/proc/" + std::to_string(::getpid());
  const std::string directory = at.parent_path().string(), name = at.filename().string();
  const bool of_thread = directory.rfind(process + "/task/", 0) == 0 && directory.ends_with("/fd");
  if (directory != process + "/fd" && !of_thread) return std::nullopt;
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

OutputTarget descriptor_target(const std::string& path, const std::string& target, int number) {
  struct stat status {};
  const int flags = ::fcntl(number, F_GETFL);
  if (flags < 0 || ::fstat(number, &status) != 0) {
    refuse(path, "descriptor " + std::to_string(number) + " is not open",
           "open it in the shell, as " + std::to_string(number) + ">file");
  }
  if ((flags & O_ACCMODE) == O_RDONLY) {
    refuse(path, "descriptor " + std::to_string(number) + " is open for reading only",
           "open it in the shell, as " + std::to_string(number) + ">file");
  }
  return {path, target, OutputKind::descriptor, number, true, status.st_mode};
}

// A new file can be made in the directory.
void check_directory(const std::string& path, const std::string& target) {
  const std::string directory = directory_of(target);
  std::error_code ignored;
  if (!fs::exists(directory, ignored)) {
    refuse(path, "there is no directory " + in_quotes(directory), "mkdir -p " + directory);
  }
  if (!fs::is_directory(directory, ignored)) refuse(path, in_quotes(directory) + " is not a directory");
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
    refuse(path, system_text(errno),
           "a file is made beside it first: can files be made in " + in_quotes(directory) + "?");
  }
}

void check_permission(const OutputTarget& made) {
  const bool nobody_may = S_ISREG(made.mode) && (made.mode & 0222) == 0;
  const bool may = !nobody_may && ::faccessat(AT_FDCWD, made.target.c_str(), W_OK, AT_EACCESS) == 0;
  if (may) return;
  refuse(made.given, nobody_may ? "it is there already, and read-only" : system_text(errno),
         "give another name, or permission: chmod u+w " + made.target);
}

}  // namespace

OutputTarget output_target(const std::string& path) {
  if (path.empty()) throw FileError(path, {.what = "the path of the file is empty"});
  if (path.find('\0') != std::string::npos) {
    throw FileError(path, {.what = "the path of the file contains a zero byte"});
  }
  const fs::path at = followed(path);
  if (const auto number = own_descriptor(at)) return descriptor_target(path, at.string(), *number);
  OutputTarget made{path, at.string()};
  const auto status = status_of(path);
  const int error = errno;
  if (!status) {
    std::error_code ignored;
    if (fs::is_symlink(fs::symlink_status(path, ignored))) {
      refuse(path,
             error == ENOENT ? "it is a symbolic link to " + in_quotes(at.string()) + ", which is not there"
                             : "it is a symbolic link that cannot be followed: " + system_text(error),
             "make what it points to, or remove the link");
    }
    if (at.filename().empty() || at.filename() == "." || at.filename() == "..") {
      refuse(path, "it names a directory", "give the name of a file inside of it");
    }
    check_directory(path, made.target);
    if (error != ENOENT) refuse(path, system_text(error));
    return made;
  }
  made.exists = true;
  made.mode = status->st_mode;
  if (S_ISDIR(made.mode)) {
    refuse(path, "a directory has this name", "give the name of a file inside of it");
  }
  const bool in_proc = made.target.rfind("/proc/", 0) == 0;
  if (!S_ISREG(made.mode) || in_proc) made.kind = OutputKind::written;
  check_permission(made);
  if (made.kind == OutputKind::replaced) check_directory(path, made.target);
  return made;
}

bool same_file(const std::string& a, const std::string& b) {
  const auto first = status_of(a), second = status_of(b);
  if (first && second) {
    return first->st_dev == second->st_dev && first->st_ino == second->st_ino && !S_ISCHR(first->st_mode);
  }
  return !first && !second && followed(a) == followed(b);
}

}  // namespace heed::io
