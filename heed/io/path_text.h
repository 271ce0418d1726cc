// What the sources of heed/io say of paths and of the system's errors. Internal to heed/io.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace heed::io {

// "No such file or directory", of errno.
inline std::string system_text(int error) { return std::generic_category().message(error); }

// The directory that a path is in; "." where it has none.
inline std::string directory_of(const std::filesystem::path& path) {
  const std::string parent = path.parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace heed::io
