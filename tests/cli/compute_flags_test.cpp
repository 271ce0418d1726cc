// --threads and --isa, the same in every command that computes.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"
#include "tests/cli/in_process.h"

namespace heed::cli {
namespace {

using Words = std::vector<std::string>;

const std::vector<Words> kCommands = {{"attend", "--example", "cats"},
                                      {"bench", "attention", "--case", "forward-d64-t128-dense", "--repetitions", "1"},
                                      {"bench", "probe"},
                                      {"doctor"}};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(ComputeFlags, AreRefusedInTheSameWordsByEveryCommand) {
  for (const Words& command : kCommands) {
    SCOPED_TRACE(command.front());
    expect_usage_error(with(command, {"--isa", "avx3"}), "unknown instruction set 'avx3'", "did you mean 'avx2'?");
    expect_usage_error(with(command, {"--threads", "0"}), "--threads is 0", "give 1 to 1024");
    expect_usage_error(with(command, {"--threads", "1025"}), "--threads is 1025", "give 1 to 1024");
  }
}

TEST(ComputeFlags, AreWhatEveryCommandComputesWith) {
  const Isa isa_before = isa();
  const int threads_before = threads();
  for (const Words& command : kCommands) {
    for (const Isa each : supported_isas()) {
      SCOPED_TRACE(command.front() + " " + std::string(isa_name(each)));
      set_isa(isa_before);
      set_threads(1);
      std::istringstream in;
      std::ostringstream out, err;
      EXPECT_EQ(run(with(command, {"--isa", std::string(isa_name(each)), "--threads", "2"}), {in, out, err}), kOk);
      EXPECT_EQ(isa(), each);
      EXPECT_EQ(threads(), 2);
    }
  }
  set_isa(isa_before);
  set_threads(threads_before);
}

}  // namespace
}  // namespace heed::cli
