#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/io/safetensors.h"
#include "heed/io/safetensors_header.h"

namespace heed::io {
namespace {

constexpr const char* kFunction = "write_safetensors";

using Metadata = std::map<std::string, std::string>;
using Floats = std::span<const float>;

const Dtype& dtype_of(FloatFormat format) {
  switch (format) {
    case FloatFormat::f32:
      return *dtype_of_safetensors("F32");
    case FloatFormat::f16:
      return *dtype_of_safetensors("F16");
    case FloatFormat::bf16:
      return *dtype_of_safetensors("BF16");
    case FloatFormat::f64:
      return *dtype_of_safetensors("F64");
  }
  fail(kFunction, "format ", static_cast<int>(format), " is not one of FloatFormat");
}

// A tensor and where it goes.
struct Placed {
  const SafetensorsEntry* entry;
  const Dtype* dtype;
  int64_t begin = 0;  // of its bytes in the data
  int64_t end = 0;
};

// A string of JSON. Text that is not UTF-8 has none.
std::string json_text(const std::string& text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail(kFunction, "the text ", in_quotes(text), " is not UTF-8");
  }
}

Metadata metadata_of(const SafetensorsOptions& options) {
  Metadata metadata = options.metadata;
  if (!options.pytorch) return metadata;
  const std::string& format = metadata.emplace("format", "pt").first->second;
  check(format == "pt", kFunction, "the metadata 'format' is ", in_quotes(format),
        ", but the option pytorch makes it 'pt'; give one of them");
  return metadata;
}

std::string metadata_text(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    text += json_text(key) + ":" + json_text(value) + ",";
  }
  text.pop_back();
  return json_text(kMetadataKey) + ":{" + text + "},";
}

// The shape is one that files hold, and that of the values.
void check_shape(const SafetensorsEntry& entry) {
  const std::string name = in_quotes(entry.name);
  check(entry.shape.size() <= kMostDimensions, kFunction, "the tensor ", name, " has ", entry.shape.size(),
        " dimensions; files hold at most ", kMostDimensions);
  check_sizes(kFunction, name.c_str(), entry.shape);
  std::visit(
      [&](const auto& values) {
        check(element_count(entry.shape) == static_cast<int64_t>(values.size()), kFunction, "the tensor ", name,
              " of shape ", entry.shape, " has ", element_count(entry.shape), " elements, but ", values.size(),
              " values were given");
        check(values.empty() || values.data() != nullptr, kFunction, "the values of ", name, " are a null span");
      },
      entry.values);
}

void check_values(const SafetensorsEntry& entry, const Dtype& dtype) {
  const auto* values = std::get_if<Floats>(&entry.values);
  if (values == nullptr) return;
  const size_t count = count_encodable(dtype, *values);
  if (count == values->size()) return;
  fail(kFunction, "the tensor ", in_quotes(entry.name), ", ", element_text(entry.shape, static_cast<int64_t>(count)),
       ": ", why_not_encoded(dtype, (*values)[count]), "; write f32");
}

// Everything that can be wrong is found here. The widest elements go first: without holes, which the format forbids,
// each tensor then begins at a multiple of its elements' size.
std::vector<Placed> place(const std::vector<SafetensorsEntry>& tensors, const Dtype& float_dtype) {
  std::set<std::string> names{kMetadataKey};
  std::vector<Placed> placed;
  placed.reserve(tensors.size());
  for (const SafetensorsEntry& entry : tensors) {
    check(names.insert(entry.name).second, kFunction, "the name ", in_quotes(entry.name),
          " is taken; each tensor needs its own");
    check_shape(entry);
    const bool has_floats = std::holds_alternative<Floats>(entry.values);
    placed.push_back({&entry, has_floats ? &float_dtype : dtype_of_safetensors("I64")});
    check_values(entry, *placed.back().dtype);
  }
  int64_t offset = 0;
  for (const int bits : {64, 32, 16}) {
    for (Placed& each : placed) {
      if (each.dtype->bits != bits) continue;
      each.begin = offset;
      each.end = offset += *byte_count(*each.dtype, each.entry->shape);
    }
  }
  return placed;
}

// The length and the header, padded with spaces so that the data begins on a cache line.
std::string header_of(const std::vector<Placed>& placed, const Metadata& metadata) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_text(metadata);
  for (const Placed& each : placed) {
    text += json_text(each.entry->name) + R"(:{"dtype":")" + std::string(each.dtype->safetensors) + R"(","shape":)" +
            nlohmann::json(each.entry->shape).dump() + R"(,"data_offsets":[)" + std::to_string(each.begin) + "," +
            std::to_string(each.end) + "]},";
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  uint64_t length = 0;
  text.resize(round_up(sizeof(length) + text.size(), kAlignment) - sizeof(length), ' ');
  length = text.size();
  check(length <= static_cast<uint64_t>(kMostSafetensorsHeader), kFunction, "the names and metadata need ", length,
        " bytes; the format allows ", kMostSafetensorsHeader);
  std::string header(sizeof(length), '\0');
  std::copy_n(reinterpret_cast<const char*>(&length), sizeof(length), header.begin());
  return header + text;
}

void write_values(OutputFile& file, const Dtype& /*dtype*/, std::span<const int64_t> values) {
  file.write(std::as_bytes(values));
}

void write_values(OutputFile& file, const Dtype& dtype, Floats values) {
  constexpr size_t kPiece = 1 << 15;  // elements; small enough to stay in cache until they are written
  if (dtype.name == "f32") return file.write(std::as_bytes(values));
  const auto element_bytes = static_cast<size_t>(dtype.bits / 8);
  std::vector<std::byte> bytes(std::min(kPiece, values.size()) * element_bytes);
  while (!values.empty()) {
    const Floats piece = values.first(std::min(kPiece, values.size()));
    encode(dtype, piece, bytes.data());
    file.write(std::span(bytes).first(piece.size() * element_bytes));
    values = values.subspan(piece.size());
  }
}

}  // namespace

void write_safetensors(const std::string& path, const std::vector<SafetensorsEntry>& tensors,
                       const SafetensorsOptions& options) {
  std::vector<Placed> placed = place(tensors, dtype_of(options.format));
  const std::string header = header_of(placed, metadata_of(options));
  OutputFile file(path);
  file.write(header);
  std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.end < b.end; });
  for (const Placed& each : placed) {
    std::visit([&](const auto& values) { write_values(file, *each.dtype, values); }, each.entry->values);
  }
  file.commit();
}

void write_safetensors(const std::string& path, const std::vector<std::pair<std::string, const Tensor*>>& tensors,
                       const Metadata& metadata) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    check(tensor != nullptr, kFunction, "no tensor was given for ", in_quotes(name));
    check_writable(kFunction, *tensor);
    entries.push_back({name, tensor->shape(), tensor->values()});
  }
  write_safetensors(path, entries, {.metadata = metadata});
}

}  // namespace heed::io
