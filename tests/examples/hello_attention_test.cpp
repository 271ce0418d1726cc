// The example prints the exact numbers of the textbook's self-attention (recomputed in double, 4 places), step by step.
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/example_program.h"

namespace heed {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The rows of numbers that follow the line which begins with `step`.
Rows rows_of(const std::string& output, const std::string& step) {
  std::istringstream lines(output);
  std::string line;
  while (std::getline(lines, line) && line.rfind(step + "  [", 0) != 0) {
  }
  Rows rows;
  while (std::getline(lines, line) && !line.empty()) {
    std::istringstream words(line);
    rows.emplace_back();
    for (std::string word; words >> word;) rows.back().push_back(word);
  }
  return rows;
}

TEST(HelloAttention, PrintsEveryStepExactly) {
  const test::ProgramRun run = test::run_example("hello_attention");
  EXPECT_EQ(run.status, 0) << run.output;
  const auto expect = [&](const std::string& step, const Rows& rows) {
    EXPECT_EQ(rows_of(run.output, step), rows) << step << "\n" << run.output;
  };
  expect("x", {{"-0.1000", "0.1000", "0.3000"}, {"0.4000", "-1.1000", "-0.3000"}});
  expect("q = x W_Q", {{"-0.0820", "-0.1400", "-0.2470"}, {"-0.3830", "0.7630", "0.6870"}});
  expect("k = x W_K", {{"0.0260", "-0.0080", "0.1320"}, {"0.2670", "0.2640", "-0.2580"}});
  expect("v = x W_V", {{"-0.1640", "-0.0850", "-0.0560"}, {"0.4410", "0.2720", "0.2010"}});
  expect("scores = q k^T", {{"-0.0336", "0.0049"}, {"0.0746", "-0.0781"}});
  expect("scaled = scores / sqrt(3)", {{"-0.0194", "0.0028"}, {"0.0431", "-0.0451"}});
  expect("weights = softmax(scaled)", {{"0.4944", "0.5056"}, {"0.5220", "0.4780"}});
  const Rows heads = {{"0.1419", "0.0955", "0.0739"}, {"0.1252", "0.0856", "0.0668"}};
  expect("heads = weights v", heads);
  expect("heads by heed::attention_forward", heads);
  expect("out = heads W_O", {{"-0.0290", "-0.0273", "0.0634"}, {"-0.0253", "-0.0244", "0.0562"}});
}

}  // namespace
}  // namespace heed
