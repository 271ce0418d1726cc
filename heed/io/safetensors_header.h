// The header of a safetensors file: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}, and
// {"__metadata__": {"KEY": "TEXT"}}.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heed/io/stored_array.h"

namespace heed::io {

inline constexpr int64_t kMostSafetensorsHeader = 100'000'000;  // the format's own limit
inline constexpr const char* kMetadataKey = "__metadata__";

struct SafetensorsContents {
  InputFile file;
  std::vector<std::string> names{};
  std::map<std::string, StoredArray> tensors{};
  std::map<std::string, std::string> metadata{};

  // An unknown name is a FileError that suggests a known one.
  const StoredArray& find(const std::string& name) const;
};

// Opens the file and validates its whole header.
SafetensorsContents read_safetensors_header(const std::string& path);

}  // namespace heed::io
