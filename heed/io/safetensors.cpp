#include "heed/io/safetensors.h"

#include <algorithm>

#include "heed/core/suggest.h"
#include "heed/io/safetensors_header.h"

namespace heed::io {
namespace {

// Did you mean, or the first few names.
std::string name_hint(const std::vector<std::string>& names, const std::string& name) {
  constexpr size_t kFew = 5;
  std::string near = did_you_mean(name, names);
  if (!near.empty()) return near;
  if (names.empty()) return "the file has no tensors";
  std::string text = "it has ";
  for (size_t i = 0; i < std::min(kFew, names.size()); ++i) text.append(i > 0 ? ", " : "").append(in_quotes(names[i]));
  return names.size() <= kFew ? text : text + " and " + std::to_string(names.size() - kFew) + " more";
}

// With its place for errors.
StoredArray named(const SafetensorsContents& contents, const std::string& name) {
  StoredArray tensor = contents.find(name);
  tensor.where = "tensor " + in_quotes(name);
  return tensor;
}

}  // namespace

const StoredArray& SafetensorsContents::find(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    throw FileError(file.path(), {.what = "no tensor is named " + in_quotes(name), .hint = name_hint(names, name)});
  }
  return found->second;
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : contents_(std::make_shared<const SafetensorsContents>(read_safetensors_header(path))) {}

const std::string& SafetensorsFile::path() const { return contents_->file.path(); }

const std::vector<std::string>& SafetensorsFile::names() const { return contents_->names; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return contents_->metadata; }

bool SafetensorsFile::has(const std::string& name) const { return contents_->tensors.contains(name); }

const std::vector<int64_t>& SafetensorsFile::shape(const std::string& name) const {
  return contents_->find(name).shape;
}

std::string SafetensorsFile::dtype(const std::string& name) const {
  return std::string(contents_->find(name).dtype->name);
}

Array SafetensorsFile::read(const std::string& name) const {
  const StoredArray tensor = named(*contents_, name);
  if (!tensor.dtype->readable) {
    throw FileError(path(), {.what = "numbers of format " + std::string(tensor.dtype->name) + " cannot be read",
                             .where = tensor.where,
                             .hint = "save it as f32, f16 or bf16"});
  }
  return read_stored(contents_->file, tensor);
}

TensorOf<int64_t> SafetensorsFile::read_integers(const std::string& name) const {
  const StoredArray tensor = named(*contents_, name);
  if (!is_whole(*tensor.dtype)) {
    throw FileError(path(), {.what = "integers were expected, but the tensor is " + std::string(tensor.dtype->name),
                             .where = tensor.where,
                             .hint = "read() gives its values as f32"});
  }
  return read_stored_integers(contents_->file, tensor);
}

}  // namespace heed::io
