// The corpora of the fuzzers, read as tests: files named refused_… are refused, all others are read.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "heed/io/mapped_safetensors.h"
#include "heed/io/npy.h"
#include "tests/support/golden.h"

namespace heed::test {
namespace {

void read_corpus(const std::string& name, const std::function<void(const std::string&)>& read) {
  int refused = 0;
  int taken = 0;
  for (const auto& entry : std::filesystem::directory_iterator(golden_path("../fuzz/corpus/" + name))) {
    SCOPED_TRACE(entry.path().filename());
    if (entry.path().filename().string().rfind("refused_", 0) == 0) {
      ++refused;
      EXPECT_THROW(read(entry.path()), io::FileError);
    } else {
      ++taken;
      EXPECT_NO_THROW(read(entry.path()));
    }
  }
  EXPECT_GT(refused, 20);
  EXPECT_GT(taken, 4);
}

TEST(Corpus, NpyFilesAreReadOrRefusedAsTheirNamesSay) {
  read_corpus("npy", [](const std::string& path) { io::read_npy(path); });
}

TEST(Corpus, SafetensorsFilesAreReadOrRefusedAsTheirNamesSay) {
  read_corpus("safetensors", [](const std::string& path) {
    const io::MappedSafetensors mapped(path);
    for (const std::string& name : mapped.file().names()) {
      const io::Array array = mapped.file().read(name);
      if (!mapped.in_place(name)) continue;
      EXPECT_EQ(mapped.values(name).size(), array.values.values().size());
    }
  });
}

}  // namespace
}  // namespace heed::test
