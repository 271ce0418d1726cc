#include "heed/io/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "heed/core/memory.h"
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

const StoredArray& find(const SafetensorsContents& contents, const std::string& name) {
  const auto found = contents.tensors.find(name);
  if (found == contents.tensors.end()) {
    throw FileError(contents.file.path(),
                    {.what = "no tensor is named " + in_quotes(name), .hint = name_hint(contents.names, name)});
  }
  return found->second;
}

// A string of JSON. Text that is not UTF-8 has none.
std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("write_safetensors", "the text ", in_quotes(text), " is not UTF-8");
  }
}

std::string metadata_text(const std::map<std::string, std::string>& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    text += json_text(key) + ":" + json_text(value) + ",";
  }
  text.pop_back();
  return json_text(kMetadataKey) + ":{" + text + "},";
}

// The length and the header, padded with spaces so that the numbers begin at a multiple of 8 bytes.
std::string header_of(const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_text(metadata);
  std::set<std::string> names{kMetadataKey};
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(tensor != nullptr, "write_safetensors", "no tensor was given for ", in_quotes(name));
    check_writable("write_safetensors", *tensor);
    check(names.insert(name).second, "write_safetensors", "the name ", in_quotes(name),
          " is taken; each tensor needs its own");
    const int64_t end = offset + tensor->count() * static_cast<int64_t>(sizeof(float));
    text += json_text(name) + R"(:{"dtype":"F32","shape":)" + nlohmann::json(tensor->shape()).dump() +
            R"(,"data_offsets":[)" + std::to_string(offset) + "," + std::to_string(end) + "]},";
    offset = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  text.resize(round_up<size_t>(text.size(), 8), ' ');
  const auto length = static_cast<uint64_t>(text.size());
  check(length <= static_cast<uint64_t>(kMostSafetensorsHeader), "write_safetensors", "the names and metadata need ",
        length, " bytes; the format allows ", kMostSafetensorsHeader);
  std::string header(sizeof(length), '\0');
  std::copy_n(reinterpret_cast<const char*>(&length), sizeof(length), header.begin());
  return header + text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : contents_(std::make_shared<const SafetensorsContents>(read_safetensors_header(path))) {}

const std::string& SafetensorsFile::path() const { return contents_->file.path(); }

const std::vector<std::string>& SafetensorsFile::names() const { return contents_->names; }

const std::map<std::string, std::string>& SafetensorsFile::metadata() const { return contents_->metadata; }

bool SafetensorsFile::has(const std::string& name) const { return contents_->tensors.contains(name); }

const std::vector<int64_t>& SafetensorsFile::shape(const std::string& name) const {
  return find(*contents_, name).shape;
}

std::string SafetensorsFile::dtype(const std::string& name) const {
  return std::string(find(*contents_, name).dtype->name);
}

Array SafetensorsFile::read(const std::string& name) const {
  StoredArray tensor = find(*contents_, name);
  tensor.where = "tensor " + in_quotes(name);
  if (!tensor.dtype->readable) {
    throw FileError(path(), {.what = "numbers of format " + std::string(tensor.dtype->name) + " cannot be read",
                             .where = tensor.where,
                             .hint = "save it as f32, f16 or bf16"});
  }
  return read_stored(contents_->file, tensor);
}

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  OutputFile file(path);
  file.write(header);
  for (const auto& [name, tensor] : tensors) file.write(std::as_bytes(std::as_const(*tensor).values()));
  file.commit();
}

}  // namespace heed::io
