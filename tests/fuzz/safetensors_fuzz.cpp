// SafetensorsFile and MappedSafetensors take any bytes: tensors that are together no larger than they are, or a
// FileError. What is read in place, as floats and as integers has the same values.
#include "heed/io/safetensors.h"

#include <cstring>

#include "heed/io/mapped_safetensors.h"
#include "tests/fuzz/fuzzed_file.h"

namespace {

using heed::fuzz::FuzzedFile;
using heed::fuzz::require;
using heed::fuzz::require_good;

// The values that could be read; some may not fit in f32.
size_t read_values(const heed::io::MappedSafetensors& mapped, const std::string& name, const FuzzedFile& file) {
  const heed::io::SafetensorsFile& tensors = mapped.file();
  try {
    const heed::io::Array array = tensors.read(name);
    require(array.values.shape() == tensors.shape(name) && array.dtype == tensors.dtype(name));
    require(array.nonfinite >= 0 && array.nonfinite <= array.values.count());
    const auto values = array.values.values();
    if (mapped.in_place(name)) {
      const auto in_place = mapped.values(name);
      require(in_place.size() == values.size());
      require(values.empty() || std::memcmp(in_place.data(), values.data(), values.size_bytes()) == 0);
    }
    return values.size();
  } catch (const heed::io::FileError& error) {
    require_good(error, file);
    return 0;
  }
}

// Integers that fit in f32 are the same there.
void read_integers(const heed::io::SafetensorsFile& tensors, const std::string& name, const FuzzedFile& file) {
  try {
    const heed::TensorOf<int64_t> integers = tensors.read_integers(name);
    require(integers.shape() == tensors.shape(name));
    const heed::io::Array array = tensors.read(name);
    for (size_t i = 0; i < integers.values().size(); ++i) {
      require(static_cast<float>(integers.values()[i]) == array.values.values()[i]);
    }
  } catch (const heed::io::FileError& error) {
    require_good(error, file);
  }
}

// What cannot be used in place is refused.
void map_values(const heed::io::MappedSafetensors& mapped, const std::string& name, const FuzzedFile& file) {
  try {
    require(mapped.view<2>(name).count() == static_cast<int64_t>(mapped.values(name).size()));
    require(mapped.in_place(name));
  } catch (const heed::io::FileError& error) {
    require_good(error, file);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const FuzzedFile file(data, size);
  try {
    const heed::io::MappedSafetensors mapped(file.path());
    size_t count = 0;
    for (const std::string& name : mapped.file().names()) {
      require(mapped.file().has(name));
      count += read_values(mapped, name, file);
      read_integers(mapped.file(), name, file);
      map_values(mapped, name, file);
    }
    require(count < size);
  } catch (const heed::io::FileError& error) {
    require_good(error, file);
  }
  return 0;
}
