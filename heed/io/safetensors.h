// safetensors: named tensors in one file. Eight bytes with the header's length, a JSON header, then the data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/io/array.h"

namespace heed::io {

struct SafetensorsContents;

// An open file. The whole header is validated on opening: unique names and keys, sizes that match dtype and shape, and
// tensors that are adjacent and cover the file exactly. Data is read on demand. A regular value: copies share the open
// file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  const std::vector<std::string>& names() const;  // in the header's order
  const std::map<std::string, std::string>& metadata() const;
  bool has(const std::string& name) const;

  // An unknown name is a FileError that suggests a known one.
  const std::vector<int64_t>& shape(const std::string& name) const;
  std::string dtype(const std::string& name) const;  // as Array::dtype
  Array read(const std::string& name) const;

 private:
  std::shared_ptr<const SafetensorsContents> contents_;
};

// Writes f32, in the given order; atomic (file.h).
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::io
