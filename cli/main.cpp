#include <unistd.h>

#include <iostream>

#include "cli/command_line.h"
#include "cli/signals.h"

int main(int argc, char** argv) {
  using namespace heed::cli;
  handle_signals();
  std::ios::sync_with_stdio(false);
  return run(std::vector<std::string>(argv + 1, argv + argc),
             {std::cin, std::cout, std::cerr, terminal_of(facts_of(STDOUT_FILENO), process_environment),
              terminal_of(facts_of(STDERR_FILENO), process_environment)});
}
