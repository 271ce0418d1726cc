// heed doctor: what this machine gives Heed, and what keeps it from giving more.
#pragma once

#include <string>
#include <vector>

#include "bench/machine.h"
#include "bench/probe.h"
#include "cli/terminal.h"

namespace heed::cli {

// The speed of a number of threads.
struct Speed {
  int threads = 1;
  bench::Probe probe;
  double memory_gbps = 0;
};

struct Examination {
  bench::Machine machine;
  int threads = 1;                // that Heed uses
  std::vector<std::string> isas;  // that this CPU and this build have, the best first
  std::string isa;                // in use
  std::vector<Speed> speeds;      // of one thread, and of all
  bool openblas = false;          // there to be compared with; Heed never needs it
  bool optimised = true;          // the build
  Terminal terminal;
};

// Measures and asks: about half a second.
Examination examine(const Terminal& terminal);

struct Problem {
  std::string what;
  std::string hint;
};
std::vector<Problem> problems_of(const Examination& found);

std::string to_text(const Examination& found);
std::string to_json(const Examination& found);  // schema heed/doctor@1

}  // namespace heed::cli
