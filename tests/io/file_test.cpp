#include "heed/io/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "heed/io/npy.h"
#include "tests/io/expect_file_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

using Names = std::vector<std::string>;

class File : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

TEST_F(File, MissingFilesProposeTheNearestName) {
  directory_.file("queries.npy", "");
  const std::string path = directory_.file("qeuries.npy");
  expect_file_error([&] { io::read_npy(path); }, path, {"no such file"}, "did you mean 'queries.npy'?");
  const std::string elsewhere = directory_.file("none/q.npy");
  expect_file_error([&] { io::read_npy(elsewhere); }, elsewhere, {"no such directory", "none'"});
  expect_file_error([&] { io::read_npy(""); }, "", {"path of the file is empty"});
}

TEST_F(File, OnlyRegularFilesAreRead) {
  expect_file_error([&] { io::read_npy(directory_.path()); }, directory_.path(), {"a directory"});
  expect_file_error([&] { io::read_npy("/dev/null"); }, "/dev/null", {"pipe or device"});
  const std::string pipe = directory_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_file_error([&] { io::read_npy(pipe); }, pipe, {"pipe or device"});
}

TEST_F(File, FilesThatMayNotBeReadAreRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = directory_.file("x", "text");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  expect_file_error([&] { io::InputFile file(path); }, path, {"cannot read"});
}

TEST_F(File, FilesThatShrinkWhileTheyAreReadAreRefused) {
  const std::string path = directory_.file("x", "0123456789");
  const io::InputFile file(path);
  EXPECT_EQ(file.size(), 10);
  std::filesystem::resize_file(path, 4);
  EXPECT_EQ(file.read(1, 3), "123");
  expect_file_error([&] { file.read(2, 5); }, path, {"became shorter", "byte 4"});
}

TEST_F(File, WholeFilesAreReadUpToALimit) {
  const std::string path = directory_.file("x", "0123456789");
  EXPECT_EQ(io::read_file(path, 10), "0123456789");
  expect_file_error([&] { io::read_file(path, 9); }, path, {"has 10 bytes; at most 9"});
}

TEST_F(File, WritingReplacesTheWholeFileAndLeavesNothingBeside) {
  const std::string path = directory_.file("x", "old and longer");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  io::write_file(path, "new");
  EXPECT_EQ(bytes_of(path), "new");
  EXPECT_EQ(directory_.names(), Names{"x"});
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640U) << "permissions stay";
}

TEST_F(File, SymbolicLinksStay) {
  const std::string target = directory_.file("target", "old");
  const std::string link = directory_.file("link");
  std::filesystem::create_symlink("target", link);
  io::write_file(link, "new");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(bytes_of(target), "new");
}

TEST_F(File, WithoutCommitNothingChanges) {
  const std::string path = directory_.file("x", "old");
  {
    io::OutputFile file(path);
    file.write(std::string_view("half of the new"));
    EXPECT_EQ(bytes_of(path), "old");
    EXPECT_EQ(directory_.names().size(), 2U) << "the temporary file is in the same directory";
  }
  EXPECT_EQ(bytes_of(path), "old");
  EXPECT_EQ(directory_.names(), Names{"x"});
}

// The limit on the size of files stands in for a full disk.
TEST_F(File, AFullDiskLeavesTheOldFileAndNothingBeside) {
  const std::string path = directory_.file("x.npy", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_file_error([&] { io::write_npy(path, Tensor({100000})); }, path, {"cannot write"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(bytes_of(path), "old");
  EXPECT_EQ(directory_.names(), Names{"x.npy"});
}

TEST_F(File, PathsThatCannotBeWrittenAreRefused) {
  const std::string elsewhere = directory_.file("none/x");
  expect_file_error([&] { io::write_file(elsewhere, "x"); }, elsewhere, {"no directory"}, "mkdir -p");
  expect_file_error([&] { io::write_file(directory_.path(), "x"); }, directory_.path(), {"a directory"});
  const std::string below = directory_.file("x", "text") + "/y";
  expect_file_error([&] { io::write_file(below, "x"); }, below, {"cannot write"});
  expect_file_error([&] { io::write_file("", "x"); }, "", {"path of the file is empty"});
  expect_file_error([&] { io::write_file("/dev/full", "x"); }, "/dev/full", {"cannot write"});
  EXPECT_EQ(directory_.names(), Names{"x"});
  if (::geteuid() == 0) return;  // root may write everywhere
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0500), 0);
  const std::string here = directory_.file("z");
  expect_file_error([&] { io::write_file(here, "x"); }, here, {"cannot write"}, "can files be made in");
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0700), 0);
}

TEST_F(File, DevicesAreWrittenAsTheyAre) {
  io::write_file("/dev/null", "anything");
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
}

TEST(FileErrors, PlacesAreNamedByLineAndPlace) {
  const io::FileError error("notes.toml",
                            {.what = "unknown key 'qq'", .where = "q", .hint = "did you mean 'q'?", .line = 3});
  EXPECT_STREQ(error.what(), "unknown key 'qq' [notes.toml:3, q]; did you mean 'q'?");
  EXPECT_EQ(error.message(), "unknown key 'qq'");
  EXPECT_EQ(error.at(), "notes.toml:3, q");
  EXPECT_EQ(error.hint(), "did you mean 'q'?");
}

TEST(FileErrors, WithoutAHintTheTextEndsWithThePlace) {
  EXPECT_STREQ(io::FileError("x.npy", {.what = "it is empty"}).what(), "it is empty [x.npy]");
}

TEST(FileErrors, QuotedTextsAreShortAndNeverCutACharacter) {
  EXPECT_EQ(io::in_quotes("größe"), "'größe'");
  EXPECT_EQ(io::in_quotes("a\tb\x7f"), "'a\\x09b\\x7f'");
  std::string longer(99, 'x');
  EXPECT_EQ(io::in_quotes(longer + "ö" + longer), "'" + longer + "…'");
}

}  // namespace
}  // namespace heed::test
