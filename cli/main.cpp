#include <iostream>

#include "cli/command_line.h"

int main(int argc, char** argv) {
  return heed::cli::run(std::vector<std::string>(argv + 1, argv + argc), {std::cin, std::cout, std::cerr});
}
