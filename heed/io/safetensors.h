// safetensors: named tensors in one file. Eight bytes that say how long the header is, a header in JSON, the numbers.
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

// An opened file. Its whole header is checked when it is opened: names and keys once each, sizes that match dtype and
// shape, tensors that follow each other and cover the file exactly. Numbers are read when they are asked for. A regular
// value: copies share the open file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const;
  const std::vector<std::string>& names() const;  // in the header's order
  const std::map<std::string, std::string>& metadata() const;
  bool has(const std::string& name) const;

  // Unknown names are FileErrors that propose a known one.
  const std::vector<int64_t>& shape(const std::string& name) const;
  std::string dtype(const std::string& name) const;  // as Array has it
  Array read(const std::string& name) const;

 private:
  std::shared_ptr<const SafetensorsContents> contents_;
};

// f32, in the order given; atomically (file.h).
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::io
