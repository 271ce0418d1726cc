// The built program as a process: through pipes, on a pseudo-terminal, or into a file.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace heed::cli {

struct Process {
  std::vector<std::string> words;                  // the program first; "heed" is the one that was built
  std::map<std::string, std::string> environment;  // all of it, besides PATH
  std::string out_path{};                          // where standard output goes; empty: collected in `out`
};

struct Ended {
  int exit = -1;    // the exit code; 128 + the signal where one ended it
  std::string out;  // on a terminal: all that was shown
  std::string err;
};

// Runs it with standard input from /dev/null. A process that has not ended after a minute is ended (exit 142, SIGALRM).
Ended run_process(const Process& process);

// Runs it with all three streams on a terminal of `columns` columns.
Ended run_on_terminal(const Process& process, int columns = 80);

// Is there such a program on this machine?
bool has_program(const std::string& name);

}  // namespace heed::cli
