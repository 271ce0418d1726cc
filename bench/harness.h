// The harness: every repetition is bracketed by probes, repetitions from a busy phase are repeated, and what counts is
// the median of ratios taken within milliseconds of each other, never a time alone.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/probe.h"

namespace heed::bench {

// One of the things that are measured in alternation.
struct Contender {
  int threads = 1;
  double flops = 0;  // useful floating-point operations of a call
  double bytes = 0;  // bytes that a call has to read; 0 where that says nothing
  std::function<void()> call;
};

struct Measurement {
  double seconds = 0;       // of a call
  double gflops = 0;
  double peak_gflops = 0;   // what the probes around the repetitions reached
  double of_peak = 0;       // gflops / peak_gflops, median of the repetitions' own ratios
  double gbps = 0;
  double of_first = 1;      // speed over that of the first contender, likewise
  int repetitions = 0;      // that count
  int repeated = 0;         // that were thrown away and done again
  int busy = 0;             // that count although the machine never became quiet
};

struct HarnessOptions {
  int repetitions = 0;          // 0: as many as fit row_seconds, at least 7
  double least_seconds = 4e-3;  // a repetition is as many calls as take this long
  double row_seconds = 0.4;
};

class Harness {
 public:
  using ProbeFunction = std::function<Probe(int slices)>;

  explicit Harness(HarnessOptions options, ProbeFunction probe = measure_probe);

  // Measures the contenders in alternation: each round is one repetition of each.
  std::vector<Measurement> measure(const std::vector<Contender>& contenders);

 private:
  struct Repetition {
    double seconds = 0;  // of a call
    double peak_gflops = 0;
    double calm = 0;  // falls below the run's best in a busy phase
  };
  using Round = std::vector<Repetition>;

  struct Pace {
    int calls = 1;  // a repetition
    int slices = kFewSlices;
    double seconds = 0;  // of a repetition
  };

  Pace find_pace(const Contender& contender) const;
  Repetition repeat(const Contender& contender, const Pace& pace);
  // How calm a round was beside the best of the run: 1 is the best.
  double calm_of(const std::vector<Contender>& contenders, const Round& round) const;

  HarnessOptions options_;
  ProbeFunction probe_;
  std::map<int, double> best_calm_;  // by number of threads
};

}  // namespace heed::bench
