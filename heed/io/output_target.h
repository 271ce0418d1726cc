// Where writing to a path ends up, and how: found out, and refused, before anything is written.
#pragma once

#include <sys/types.h>

#include <string>

#include "heed/io/file_error.h"

namespace heed::io {

// How a file comes to be under a path.
enum class OutputKind {
  replaced,    // a regular file, or none yet: a new file takes its place, atomically
  written,     // a device, a pipe, another process's open file: written to as it is
  descriptor,  // an open file of this process (/dev/stdout, /dev/fd/3, /proc/self/fd/3): written on where it stands
};

struct OutputTarget {
  std::string given;   // as the user wrote it, for messages
  std::string target;  // with symbolic links followed: a link stays, and what it points to is replaced
  OutputKind kind = OutputKind::replaced;
  int descriptor = -1;  // of OutputKind::descriptor
  bool exists = false;
  mode_t mode = 0;  // type and permissions, where it exists
};

// Refuses, with a FileError, what cannot become a file: a directory, a symbolic link that points nowhere, a file
// without permission to write (none at all: for root too), a directory that is not there or takes no new files, a
// descriptor that is closed or open for reading only. Opens and makes nothing, so that it may be asked before hours of
// work.
OutputTarget output_target(const std::string& path);

// Would the two paths end up in the same file: the same name, or the same file by device and inode? Where none of them
// exists, names are compared, the directories' links followed. Never true of a character device (/dev/null): writing
// twice to it loses nothing that was kept.
bool same_file(const std::string& a, const std::string& b);

}  // namespace heed::io
