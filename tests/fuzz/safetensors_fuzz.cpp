// SafetensorsFile takes any bytes: tensors that are together no larger than they are, or a FileError.
#include "heed/io/safetensors.h"

#include "tests/fuzz/fuzzed_file.h"

namespace {

// The values that could be read; some may not fit in f32.
size_t read_values(const heed::io::SafetensorsFile& tensors, const std::string& name,
                   const heed::fuzz::FuzzedFile& file) {
  using heed::fuzz::require;
  try {
    const heed::io::Array array = tensors.read(name);
    require(array.values.shape() == tensors.shape(name) && array.dtype == tensors.dtype(name));
    require(array.nonfinite >= 0 && array.nonfinite <= array.values.count());
    return array.values.values().size();
  } catch (const heed::io::FileError& error) {
    heed::fuzz::require_good(error, file);
    return 0;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const heed::fuzz::FuzzedFile file(data, size);
  try {
    const heed::io::SafetensorsFile tensors(file.path());
    size_t count = 0;
    for (const std::string& name : tensors.names()) {
      heed::fuzz::require(tensors.has(name));
      count += read_values(tensors, name, file);
    }
    heed::fuzz::require(count < size);
  } catch (const heed::io::FileError& error) {
    heed::fuzz::require_good(error, file);
  }
  return 0;
}
