// read_npy takes any bytes: an array no larger than they are, or a FileError.
#include "heed/io/npy.h"
#include "tests/fuzz/fuzzed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using heed::fuzz::require;
  const heed::fuzz::FuzzedFile file(data, size);
  try {
    const heed::io::Array array = heed::io::read_npy(file.path());
    require(array.values.count() == heed::element_count(array.values.shape()));
    require(array.values.values().size() < size);
    require(array.nonfinite >= 0 && array.nonfinite <= array.values.count());
  } catch (const heed::io::FileError& error) {
    heed::fuzz::require_good(error, file);
  }
  return 0;
}
