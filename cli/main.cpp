#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/command_line.h"

int main(int argc, char** argv) {
  using namespace heed::cli;
  // `heed … | head -1` ends quietly, also where the caller had the signal ignored.
  std::signal(SIGPIPE, SIG_DFL);
  std::ios::sync_with_stdio(false);
  return run(std::vector<std::string>(argv + 1, argv + argc),
             {std::cin, std::cout, std::cerr, terminal_of(facts_of(STDOUT_FILENO), process_environment),
              terminal_of(facts_of(STDERR_FILENO), process_environment)});
}
