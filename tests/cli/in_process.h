// Runs the command line inside the test: arguments in, exit code and both streams out.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::cli {

struct Result {
  int exit = 0;
  std::string out;
  std::string err;
};

struct Surroundings {
  std::string input;
  Terminal terminal;  // of both streams
};

inline Result heed(const std::vector<std::string>& arguments, const Surroundings& around = {}) {
  const Isa isa_before = isa();
  const int threads_before = threads();
  std::istringstream in(around.input);
  std::ostringstream out, err;
  const int exit = run(arguments, {in, out, err, around.terminal, around.terminal});
  set_isa(isa_before);
  set_threads(threads_before);
  return {exit, out.str(), err.str()};
}

// A refusal: exit code 2, nothing on standard output, this text and this hint on standard error.
inline void expect_usage_error(const std::vector<std::string>& arguments, const std::string& message,
                               const std::string& hint) {
  const Result result = heed(arguments);
  EXPECT_EQ(result.exit, kUsage);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, "heed: error: " + message + "\n  hint: " + hint + "\n");
}

}  // namespace heed::cli
