#include "heed/io/array.h"

#include <string_view>

#include "heed/io/npy.h"
#include "heed/io/safetensors.h"

namespace heed::io {

Array read_array(const std::string& reference) {
  constexpr std::string_view kEnding = ".safetensors";
  const size_t colon = reference.find(std::string(kEnding) + ":");
  if (colon != std::string::npos) {
    const size_t end = colon + kEnding.size();
    return SafetensorsFile(reference.substr(0, end)).read(reference.substr(end + 1));
  }
  if (!reference.ends_with(kEnding)) return read_npy(reference);
  const SafetensorsFile file(reference);
  const std::string first = file.names().empty() ? "" : "; its first is " + in_quotes(file.names().front());
  throw FileError(reference, {.what = "the file has its tensors by name, and none was given",
                              .hint = "say which one, as " + reference + ":NAME" + first});
}

}  // namespace heed::io
