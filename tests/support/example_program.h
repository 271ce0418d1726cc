// Runs an example as a program, in a directory of its own for what it writes.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace heed::test {

struct ProgramRun {
  std::string output;
  int status = -1;
};

inline ProgramRun run_example(const std::string& name) {
  const TemporaryDirectory directory;
  ProgramRun run;
  FILE* pipe = popen(("cd '" + directory.path() + "' && '" HEED_EXAMPLES_DIR "/" + name + "'").c_str(), "r");
  if (pipe == nullptr) return run;
  char buffer[256];
  while (std::fgets(buffer, sizeof(buffer), pipe) != nullptr) run.output += buffer;
  run.status = pclose(pipe);
  return run;
}

// The numbers that follow each occurrence of `text` in what a program printed.
inline std::vector<double> numbers_after(const std::string& output, const std::string& text) {
  std::vector<double> numbers;
  for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1)) {
    numbers.push_back(std::stod(output.substr(at + text.size())));
  }
  return numbers;
}

}  // namespace heed::test
