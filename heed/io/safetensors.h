// safetensors: named tensors in one file. Eight bytes with the header's length, a JSON header, then the data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/io/array.h"

namespace heed::io {

struct SafetensorsContents;

// An open file. The whole header is validated on opening: unique names and keys, sizes that match dtype and shape, and
// tensors that are adjacent and cover the file exactly. Data is read on demand; mapped_safetensors.h uses it in place.
// A regular value: copies share the open file.
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

  // A tensor of integers or bool, exactly: token ids, step counters.
  TensorOf<int64_t> read_integers(const std::string& name) const;

 private:
  friend class MappedSafetensors;
  std::shared_ptr<const SafetensorsContents> contents_;
};

// A tensor to write. Its values, in row-major order, stay the caller's.
struct SafetensorsEntry {
  std::string name;
  std::vector<int64_t> shape;
  std::variant<std::span<const float>, std::span<const int64_t>> values;
};

// The format of floats in a file. From f32, f16 and bf16 are rounded to nearest, ties to even; f64 is exact.
enum class FloatFormat { f32, f16, bf16, f64 };

struct SafetensorsOptions {
  FloatFormat format = FloatFormat::f32;  // of every tensor of floats; integers are written as I64
  std::map<std::string, std::string> metadata{};
  bool pytorch = false;  // adds {"format": "pt"} to the metadata: Hugging Face's transformers loads no file without it
};

// Writes the tensors atomically and durably (file.h). The header lists them in the given order; the data has the widest
// format first, so that each tensor is aligned to its elements, and begins at a multiple of 64 bytes. A finite value
// that the format cannot hold, such as 70000 in f16, is an Error that names tensor and element, never a silent ∞. All
// errors but the system's are found before anything is written.
void write_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& tensors,
                       const SafetensorsOptions& options = {});

// The same for whole tensors, in f32.
void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace heed::io
