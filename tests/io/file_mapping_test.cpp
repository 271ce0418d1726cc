#include "heed/io/file_mapping.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

#include "tests/io/expect_file_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(FileMapping, HasTheBytesOfTheFileAndOutlivesIt) {
  const TemporaryDirectory directory;
  std::optional<io::InputFile> file(directory.file("x", "0123456789"));
  const io::FileMapping mapping(*file);
  file.reset();
  EXPECT_EQ(text_of(mapping.bytes()), "0123456789");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(mapping.bytes().data()) % 4096, 0U);
  EXPECT_TRUE(io::FileMapping(io::InputFile(directory.file("empty", ""))).bytes().empty());
}

TEST(FileMapping, FilesThatBecameShorterAreRefusedAndLongerOnesAreMappedAsTheyWere) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("x", "0123456789");
  const io::InputFile file(path);
  std::filesystem::resize_file(path, 12);
  EXPECT_EQ(text_of(io::FileMapping(file).bytes()), "0123456789");
  std::filesystem::resize_file(path, 9);
  expect_file_error([&] { io::FileMapping mapping(file); }, path, {"became shorter", "byte 9"});
}

}  // namespace
}  // namespace heed::test
