// What is replaced, what is written to as it is, and what is refused before anything is written.
#include "heed/io/output_target.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "heed/io/file.h"
#include "tests/io/expect_file_error.h"
#include "tests/support/temporary_directory.h"

namespace heed::test {
namespace {

using Names = std::vector<std::string>;

class OutputTarget : public testing::Test {
 protected:
  TemporaryDirectory directory_;
};

// As `heed … --out /dev/fd/N N>> log`: what the log had stays, and comes first.
TEST_F(OutputTarget, OpenFilesAreWrittenOnAndNeverReplaced) {
  for (const char* directory : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
    const std::string log = directory_.file("log", "old\n");
    const io::Descriptor open_log(::open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
    struct stat before {
    }, after{};
    ASSERT_EQ(::stat(log.c_str(), &before), 0);
    const std::string path = directory + std::to_string(open_log.number());
    EXPECT_EQ(io::output_target(path).kind, io::OutputKind::descriptor) << path;
    io::write_file(path, "new\n");
    io::write_file(path, "newer\n");
    EXPECT_EQ(bytes_of(log), "old\nnew\nnewer\n") << path;
    ASSERT_EQ(::stat(log.c_str(), &after), 0);
    EXPECT_EQ(before.st_ino, after.st_ino);
    EXPECT_EQ(directory_.names(), Names{"log"});
  }
}

TEST_F(OutputTarget, ALinkToAnOpenFileIsAnOpenFile) {
  const std::string log = directory_.file("log", "old\n"), link = directory_.file("link");
  const io::Descriptor open_log(::open(log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(open_log.number()), link);
  io::write_file(link, "new\n");
  EXPECT_EQ(bytes_of(log), "old\nnew\n");
}

TEST_F(OutputTarget, PipesAreWrittenTo) {
  const std::string pipe = directory_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(io::output_target(pipe).kind, io::OutputKind::written);
  std::string got;
  std::thread reader([&] { got = bytes_of(pipe); });
  io::write_file(pipe, "through the pipe");
  reader.join();
  EXPECT_EQ(got, "through the pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(directory_.names(), Names{"pipe"});
}

TEST_F(OutputTarget, DescriptorsThatCannotBeWrittenAreRefused) {
  const std::string file = directory_.file("x", "old");
  const io::Descriptor reading(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string path = "/dev/fd/" + std::to_string(reading.number());
  expect_file_error([&] { io::output_target(path); }, path, {"open for reading only"});
  expect_file_error([&] { io::output_target("/dev/fd/4321"); }, "/dev/fd/4321", {"descriptor 4321 is not open"});
}

TEST_F(OutputTarget, LinksThatPointNowhereAreRefusedAndStay) {
  const std::string link = directory_.file("link"), loop = directory_.file("loop");
  std::filesystem::create_symlink("nowhere", link);
  std::filesystem::create_symlink("loop", loop);
  expect_file_error([&] { io::write_file(link, "x"); }, link, {"a symbolic link to", "nowhere', which is not there"},
                    "make what it points to, or remove the link");
  expect_file_error([&] { io::write_file(loop, "x"); }, loop, {"a symbolic link that cannot be followed"});
  EXPECT_EQ(directory_.names(), (Names{"link", "loop"}));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
}

TEST_F(OutputTarget, ReadOnlyFilesAreRefusedAndStay) {
  const std::string path = directory_.file("x", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  expect_file_error([&] { io::write_file(path, "new"); }, path, {"read-only"}, "chmod u+w");
  EXPECT_EQ(bytes_of(path), "old");
}

TEST_F(OutputTarget, AskingMakesNothing) {
  EXPECT_EQ(io::output_target(directory_.file("new")).kind, io::OutputKind::replaced);
  EXPECT_TRUE(directory_.names().empty());
}

TEST_F(OutputTarget, TheSameFileIsSeenThroughDotsLinksAndInodes) {
  const std::string file = directory_.file("x", "old"), link = directory_.file("link"), hard = directory_.file("hard");
  std::filesystem::create_symlink("x", link);
  std::filesystem::create_hard_link(file, hard);
  std::filesystem::create_directory(directory_.file("d"));
  for (const std::string& other : {directory_.file("./x"), directory_.file("d/../x"), link, hard}) {
    EXPECT_TRUE(io::same_file(file, other)) << other;
  }
  EXPECT_TRUE(io::same_file(directory_.file("new"), directory_.file("d/../new")));
  EXPECT_FALSE(io::same_file(directory_.file("new"), directory_.file("d/new")));
  EXPECT_FALSE(io::same_file(directory_.file("new"), file));
  EXPECT_FALSE(io::same_file("/dev/null", "/dev/null"));
}

}  // namespace
}  // namespace heed::test
