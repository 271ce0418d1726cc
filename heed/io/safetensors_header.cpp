#include "heed/io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "heed/io/looks_like.h"

namespace heed::io {
namespace {

constexpr int64_t kLengthBytes = 8;

// Takes the JSON as nlohmann's parser reads it and lets pass only what the format allows. Nothing nests deeper than
// {name: {field: [number]}}, so the depth is bounded by the states there are.
class HeaderEvents {
 public:
  explicit HeaderEvents(SafetensorsContents& contents) : contents_(contents) {}

  bool start_object(size_t /*size*/) {
    if (at_ == At::kStart) {
      at_ = At::kTop;
    } else if (at_ == At::kTop && name_ == kMetadataKey) {
      at_ = At::kMetadata;
    } else if (at_ == At::kTop) {
      at_ = At::kTensor;
      tensor_ = {};
      offsets_.clear();
      seen_ = {};
    } else {
      refuse_value("an object");
    }
    return true;
  }

  bool key(std::string& text) {
    if (at_ == At::kTop) {
      name_ = text;
      const bool known = text == kMetadataKey ? std::exchange(has_metadata_, true) : contents_.tensors.contains(text);
      if (known) refuse("the header has the name " + in_quotes(text) + " twice");
    } else if (at_ == At::kMetadata) {
      field_ = text;
      if (contents_.metadata.contains(text)) refuse("the metadata have the key " + in_quotes(text) + " twice");
    } else {
      field_ = text;
      const auto number = static_cast<size_t>(std::find(kFields.begin(), kFields.end(), text) - kFields.begin());
      if (number == kFields.size()) refuse("the field " + in_quotes(text) + " is not of the format");
      if (std::exchange(seen_[number], true)) refuse("the field '" + text + "' is there twice");
    }
    return true;
  }

  bool string(std::string& text) {
    if (at_ == At::kMetadata) {
      contents_.metadata.emplace(field_, text);
    } else if (at_ == At::kTensor && field_ == "dtype") {
      tensor_.dtype = dtype_of_safetensors(text);
      if (tensor_.dtype == nullptr) refuse("the dtype " + in_quotes(text) + " is unknown");
    } else {
      refuse_value("a string");
    }
    return true;
  }

  bool start_array(size_t /*size*/) {
    if (at_ != At::kTensor || field_ == "dtype") refuse_value("an array");
    at_ = At::kNumbers;
    return true;
  }

  bool number_unsigned(uint64_t number) {
    if (at_ != At::kNumbers) refuse_value("a number");
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) refuse_overflow();
    std::vector<int64_t>& numbers = field_ == "shape" ? tensor_.shape : offsets_;
    if (numbers.size() == kMostDimensions) refuse("'" + field_ + "' has more than 64 numbers");
    numbers.push_back(static_cast<int64_t>(number));
    return true;
  }

  bool end_array() {
    at_ = At::kTensor;
    return true;
  }

  bool end_object() {
    if (at_ == At::kTensor) add_tensor();
    at_ = at_ == At::kTop ? At::kStart : At::kTop;
    return true;
  }

  bool number_integer(int64_t /*number*/) { refuse_value("a negative number"); }
  bool number_float(double /*number*/, const std::string& text) {
    if (text.find_first_not_of("0123456789") == std::string::npos) refuse_overflow();
    refuse_value("a fraction");
  }
  bool boolean(bool /*value*/) { refuse_value("true or false"); }
  bool null() { refuse_value("null"); }
  bool binary(nlohmann::json::binary_t& /*bytes*/) { refuse_value("binary data"); }

  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) {
    throw FileError(contents_.file.path(),
                    {.what = "the header is not JSON",
                     .where = "byte " + std::to_string(kLengthBytes + static_cast<int64_t>(position) - 1),
                     .hint = "copy or save it again"});
  }

 private:
  enum class At { kStart, kTop, kMetadata, kTensor, kNumbers };
  static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};

  [[noreturn]] void refuse(const std::string& what) const {
    const std::string where =
        at_ == At::kTensor || at_ == At::kNumbers ? "header, tensor " + in_quotes(name_) : "header";
    throw FileError(contents_.file.path(), {.what = what, .where = where, .hint = "was it written by safetensors?"});
  }

  [[noreturn]] void refuse_value(const std::string& found) const {
    switch (at_) {
      case At::kStart:
        refuse("the header is not an object of JSON");
      case At::kTop:
        refuse(in_quotes(name_) + " has " + found + " where an object was expected");
      case At::kMetadata:
        refuse("the metadata " + in_quotes(field_) + " has " + found + " where a string was expected");
      case At::kTensor:
        refuse("'" + field_ + "' has " + found + " where " + (field_ == "dtype" ? "a string" : "an array") +
               " was expected");
      default:
        refuse("'" + field_ + "' has " + found + " among its numbers");
    }
  }

  [[noreturn]] void refuse_overflow() const { refuse("'" + field_ + "' has a number that overflows 64 bits"); }

  // Dtype and shape must need exactly the bytes that the offsets span.
  void add_tensor() {
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (!seen_[i]) refuse("the field '" + std::string(kFields[i]) + "' is missing");
    }
    if (offsets_.size() != 2) refuse("'data_offsets' has " + std::to_string(offsets_.size()) + " numbers, not two");
    if (offsets_[0] > offsets_[1]) refuse("'data_offsets' ends before it begins: " + to_text(offsets_));
    const auto bytes = byte_count(*tensor_.dtype, tensor_.shape);
    const std::string claim = "shape " + to_text(tensor_.shape) + " of " + std::string(tensor_.dtype->name);
    if (!bytes) refuse(claim + " overflows 64 bits, or does not end on a byte");
    if (*bytes != offsets_[1] - offsets_[0]) {
      refuse(claim + " needs " + std::to_string(*bytes) + " bytes, but 'data_offsets' span " +
             std::to_string(offsets_[1] - offsets_[0]));
    }
    tensor_.offset = offsets_[0];
    contents_.tensors.emplace(name_, std::move(tensor_));
    contents_.names.push_back(name_);
  }

  SafetensorsContents& contents_;
  At at_ = At::kStart;
  std::string name_;   // of the tensor that is being read
  std::string field_;  // of the tensor, or key of the metadata
  StoredArray tensor_;
  std::vector<int64_t> offsets_;
  std::array<bool, 3> seen_{};
  bool has_metadata_ = false;
};

// The header's text; what comes before and after it is checked.
std::string read_header_text(const InputFile& file) {
  const auto refuse = [&](const std::string& what, const std::string& where, const std::string& hint) {
    throw FileError(file.path(), {.what = what, .where = where, .hint = hint});
  };
  const auto refuse_kind = [&] {
    const Looks looks = looks_like(file);
    refuse("not a safetensors file: " + looks.what, "byte 0", looks.as_safetensors);
  };
  if (file.size() < kLengthBytes) refuse_kind();
  uint64_t length = 0;
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  const auto rest = static_cast<uint64_t>(file.size() - kLengthBytes);
  if (file.size() > kLengthBytes && file.read(kLengthBytes, 1) != "{") refuse_kind();
  if (length > rest) {
    refuse("the header claims " + std::to_string(length) + " bytes, but the file has only " + std::to_string(rest) +
               " more",
           "byte 0", "the file is cut off: copy or save it again");
  }
  if (length > static_cast<uint64_t>(kMostSafetensorsHeader)) {
    refuse("the header claims " + std::to_string(length) + " bytes; at most 100000000 are allowed", "byte 0", "");
  }
  std::string text = file.read(kLengthBytes, static_cast<int64_t>(length));
  // The parser takes a zero byte for the end of its input.
  const size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    refuse("the header has a zero byte", "byte " + std::to_string(kLengthBytes + static_cast<int64_t>(zero)),
           "copy or save it again");
  }
  return text;
}

// Tensors must follow each other without holes and overlaps, and end where the file ends.
void check_layout(const SafetensorsContents& contents, int64_t data_bytes) {
  struct Part {
    int64_t begin;
    int64_t end;
    const std::string* name;
  };
  std::vector<Part> parts;
  parts.reserve(contents.tensors.size());
  for (const auto& [name, tensor] : contents.tensors) {
    parts.push_back({tensor.offset, tensor.offset + *byte_count(*tensor.dtype, tensor.shape), &name});
  }
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin != b.begin ? a.begin < b.begin : a.end < b.end; });
  const auto refuse = [&](const std::string& what, const std::string& where) {
    throw FileError(contents.file.path(), {.what = what, .where = where, .hint = "copy or save it again"});
  };
  int64_t end = 0;
  for (const Part& part : parts) {
    const std::string where = "tensor " + in_quotes(*part.name);
    if (part.begin < end) {
      refuse("the tensor begins at byte " + std::to_string(part.begin) + " of the data, within another tensor", where);
    }
    if (part.begin > end) {
      refuse("bytes " + std::to_string(end) + " to " + std::to_string(part.begin) +
                 " of the data, before this tensor, are of none",
             where);
    }
    end = part.end;
    if (end > data_bytes) {
      refuse("the tensor ends at byte " + std::to_string(end) + " of the data, but the file has " +
                 std::to_string(data_bytes),
             where);
    }
  }
  if (end != data_bytes) {
    refuse("the tensors end at byte " + std::to_string(end) + " of the data, but the file has " +
               std::to_string(data_bytes),
           "end of the data");
  }
}

}  // namespace

SafetensorsContents read_safetensors_header(const std::string& path) {
  SafetensorsContents contents{.file = InputFile(path)};
  const std::string text = read_header_text(contents.file);
  HeaderEvents events(contents);
  nlohmann::json::sax_parse(text, &events);
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(text.size());
  check_layout(contents, contents.file.size() - data_begin);
  for (auto& [name, tensor] : contents.tensors) tensor.offset += data_begin;
  return contents;
}

}  // namespace heed::io
