// The corpus of the fuzzer, read as a test: files named refused_… are refused, all others are read.
#include <gtest/gtest.h>

#include <filesystem>

#include "heed/explain/check_file.h"
#include "heed/io/file_error.h"
#include "tests/support/golden.h"

namespace heed::explain {
namespace {

TEST(CheckFileCorpus, FilesAreReadOrRefusedAsTheirNamesSay) {
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test::golden_path("../fuzz/corpus/check_file"))) {
    SCOPED_TRACE(entry.path().filename());
    if (entry.path().filename().string().rfind("refused_", 0) == 0) {
      ++refused;
      EXPECT_THROW(read_check_file(entry.path()), io::FileError);
    } else {
      EXPECT_GT(grade(read_check_file(entry.path())).numbers(), 0);
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace heed::explain
