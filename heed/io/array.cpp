#include "heed/io/array.h"

#include <string_view>

#include "heed/io/npy.h"
#include "heed/io/safetensors.h"

namespace heed::io {

namespace {
constexpr std::string_view kEnding = ".safetensors";
}

ArrayReference split_reference(const std::string& reference) {
  const size_t at = reference.find(std::string(kEnding) + ":");
  if (at == std::string::npos) return {reference, ""};
  const size_t end = at + kEnding.size();
  return {reference.substr(0, end), reference.substr(end + 1)};
}

Array read_array(const std::string& reference) {
  const auto [path, name] = split_reference(reference);
  if (path != reference) return SafetensorsFile(path).read(name);
  if (!reference.ends_with(kEnding)) return read_npy(reference);
  const SafetensorsFile file(reference);
  const std::string first = file.names().empty() ? "" : "; its first is " + in_quotes(file.names().front());
  throw FileError(reference, {.what = "the file has its tensors by name, and none was given",
                              .hint = "say which one, as " + reference + ":NAME" + first});
}

}  // namespace heed::io
