// Resolves where and how a path is written. Errors are found before anything is written.
#pragma once

#include <sys/types.h>

#include <string>

#include "heed/io/file_error.h"

namespace heed::io {

// How a path is written.
enum class OutputKind {
  replaced,    // a regular file, or none yet: replaced atomically by a new file
  written,     // a device, a pipe, another process's open file: written to directly
  descriptor,  // an open file of this process (/dev/stdout, /dev/fd/3, /proc/self/fd/3): written at its offset
};

struct OutputTarget {
  std::string given;   // as the user wrote it, for messages
  std::string target;  // with symbolic links resolved: a link is kept, and the file it points to is replaced
  OutputKind kind = OutputKind::replaced;
  int descriptor = -1;  // of OutputKind::descriptor
  bool exists = false;
  mode_t mode = 0;  // type and permissions, if it exists
};

// Throws a FileError for a path that cannot be written: a directory, a dangling symbolic link, a file without write
// permission (if nobody has it, for root too), a missing directory or one that takes no new files, a descriptor that is
// closed or read-only. Opens and creates nothing, so it can be called before hours of work.
OutputTarget output_target(const std::string& path);

// True if writing to both paths would end up in the same file: the same name, or the same device and inode. If neither
// exists, names are compared with the directories' links resolved. Never true for a character device (/dev/null):
// writing to it twice loses nothing.
bool same_file(const std::string& a, const std::string& b);

}  // namespace heed::io
