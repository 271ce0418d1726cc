#include "cli/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "cli/exit_codes.h"
#include "heed/io/file.h"
#include "tests/cli/process.h"
#include "tests/support/temporary_directory.h"

namespace heed::cli {
namespace {

using Names = std::vector<std::string>;

TEST(Signals, FilesThatAreHalfWrittenAreRemovedAndTheOldOnesStay) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const test::TemporaryDirectory directory;
    const std::string path = directory.file("y.npy", "old");
    const auto interrupted = [&] {
      std::signal(signal, SIG_DFL);
      handle_signals();
      { io::OutputFile(path).write("gone before the signal"); }
      io::OutputFile half(path), other(directory.file("z.npy"));
      half.write("half");
      if (directory.names().size() != 3) ::_exit(1);
      std::raise(signal);
    };
    EXPECT_EXIT(interrupted(), testing::KilledBySignal(signal), "");
    EXPECT_EQ(directory.names(), Names{"y.npy"});
    EXPECT_EQ(test::bytes_of(path), "old");
  }
}

TEST(Signals, WhatTheCallerHadIgnoredStaysIgnored) {
  const auto ignoring = [] {
    std::signal(SIGHUP, SIG_IGN);
    handle_signals();
    std::raise(SIGHUP);
    ::_exit(7);
  };
  EXPECT_EXIT(ignoring(), testing::ExitedWithCode(7), "");
}

TEST(Signals, AFileBeyondTheLimitIsAnErrorAndLeavesNothing) {
  const test::TemporaryDirectory directory;
  const std::string command =
      "ulimit -f 0; exec " HEED_PROGRAM " attend --example cats --out " + directory.file("y.npy");
  const Ended ended = run_process({{"bash", "-c", command}, {}});
  EXPECT_EQ(ended.exit, kBadData);
  EXPECT_NE(ended.err.find("cannot write the file: File too large"), std::string::npos) << ended.err;
  EXPECT_EQ(directory.names(), Names{});
}

}  // namespace
}  // namespace heed::cli
