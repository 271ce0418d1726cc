// read_check_file takes any bytes: a worked example that can be graded, or a FileError.
#include "heed/explain/check_file.h"
#include "tests/fuzz/fuzzed_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using heed::fuzz::require;
  const heed::fuzz::FuzzedFile file(data, size);
  try {
    const heed::explain::WorkedExample example = heed::explain::read_check_file(file.path());
    const heed::explain::Grading grading = heed::explain::grade(example);
    int64_t counted = 0;
    for (int n = 0; n <= static_cast<int>(heed::explain::Verdict::wrong); ++n) {
      counted += grading.count(static_cast<heed::explain::Verdict>(n));
    }
    require(grading.numbers() > 0 && grading.numbers() == counted);
    require(grading.steps.size() == example.steps.size());
  } catch (const heed::io::FileError& error) {
    heed::fuzz::require_good(error, file);
  }
  return 0;
}
