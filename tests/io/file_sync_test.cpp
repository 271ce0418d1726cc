// Written files survive a power failure: the order of fsync and rename. fsync itself is replaced in this program by one
// that notes what it was called for, and that can fail.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "heed/io/file.h"
#include "tests/io/expect_file_error.h"
#include "tests/support/temporary_directory.h"

namespace {

struct Sync {
  bool directory = false;
  std::string seen{};  // what a reader of the watched file sees at that moment

  bool operator==(const Sync&) const = default;
};

struct Watch {
  std::string path;
  std::vector<Sync> syncs{};
  bool files_fail = false;
  bool directories_fail = false;
};

Watch* watch = nullptr;  // none: fsync is the system's

}  // namespace

extern "C" int fsync(int descriptor) {
  struct stat status {};
  if (watch != nullptr && ::fstat(descriptor, &status) == 0) {
    const bool directory = S_ISDIR(status.st_mode);
    watch->syncs.push_back({directory, heed::test::bytes_of(watch->path)});
    if (directory ? watch->directories_fail : watch->files_fail) {
      errno = EIO;
      return -1;
    }
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace heed::test {
namespace {

class FileSync : public testing::Test {
 protected:
  void SetUp() override { watch = &watch_; }
  void TearDown() override { watch = nullptr; }

  TemporaryDirectory directory_;
  Watch watch_{.path = directory_.file("x", "old")};
};

TEST_F(FileSync, BytesReachTheDiskBeforeTheNameAndTheNameBeforeCommitReturns) {
  io::write_file(watch_.path, "new");
  EXPECT_EQ(watch_.syncs, (std::vector<Sync>{{.directory = false, .seen = "old"}, {.directory = true, .seen = "new"}}));
}

TEST_F(FileSync, BytesThatDoNotReachTheDiskLeaveTheOldFile) {
  watch_.files_fail = true;
  expect_file_error([&] { io::write_file(watch_.path, "new"); }, watch_.path, {"cannot write the file"});
  EXPECT_EQ(bytes_of(watch_.path), "old");
  EXPECT_EQ(directory_.names(), std::vector<std::string>{"x"}) << "nothing is left beside it";
}

TEST_F(FileSync, ANameThatMayNotReachTheDiskIsAnError) {
  watch_.directories_fail = true;
  expect_file_error([&] { io::write_file(watch_.path, "new"); }, watch_.path,
                    {"the file is written, but a power failure may undo it", "fsync of its directory"});
  EXPECT_EQ(bytes_of(watch_.path), "new");
}

TEST_F(FileSync, DevicesAreNotSynced) {
  io::write_file("/dev/null", "anything");
  EXPECT_TRUE(watch_.syncs.empty());
}

}  // namespace
}  // namespace heed::test
