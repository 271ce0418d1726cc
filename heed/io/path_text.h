// Text for paths and system errors. Internal to heed/io.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace heed::io {

// The message of an errno, such as "No such file or directory".
inline std::string system_text(int error) { return std::generic_category().message(error); }

// The parent directory of a path; "." if it has none.
inline std::string directory_of(const std::filesystem::path& path) {
  const std::string parent = path.parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace heed::io
