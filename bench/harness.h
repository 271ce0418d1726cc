// The harness: every repetition is bracketed by probes, repetitions from a busy phase are repeated, and what counts is
// the median of ratios taken within milliseconds of each other, never a time alone.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "bench/probe.h"

namespace heed::bench {

// One of the things that are measured in alternation.
struct Contender {
  int threads = 1;
  double flops = 0;  // useful floating-point operations of a call; 0 for a plain read
  double bytes = 0;  // bytes that a call has to read; 0 where that says nothing
  std::function<void()> call;
};

struct Measurement {
  double seconds = 0;  // of a call
  double gflops = 0;
  double peak_gflops = 0;  // what the probes around the repetitions reached
  double of_peak = 0;      // gflops / peak_gflops: the median of the repetitions' own ratios
  double gbps = 0;
  double of_first = 1;  // speed over that of the first contender, likewise
  int repetitions = 0;  // that count
  int repeated = 0;     // that were thrown away and done again
  int busy = 0;         // that count although they are from a busy phase: the machine did not become quiet
};

struct HarnessOptions {
  int repetitions = 0;          // 0: as many as fit row_seconds, at least 7
  double least_seconds = 4e-3;  // a repetition is as many calls as take this long
  double row_seconds = 0.4;
};

// Of a table of rows.
struct BenchOptions {
  int threads = 1;      // of the rows that do not say
  int all_threads = 1;  // of the rows that use all threads
  HarnessOptions harness;
};

// What the harness reads. Tests give instruments of their own.
struct Instruments {
  std::function<Probe(int slices)> probe;
  std::function<double()> now;              // seconds
  std::function<double()> waiting_seconds;  // that the threads of this process have waited for a core
  std::function<void(double seconds)> pause;
};
Instruments real_instruments();

class Harness {
 public:
  explicit Harness(HarnessOptions options, Instruments instruments = real_instruments());

  // Measures the contenders in alternation: each round is one repetition of each. The result has one measurement a
  // contender.
  std::vector<Measurement> measure(const std::vector<Contender>& contenders);

 private:
  // How a contender is repeated.
  struct Pace {
    int calls = 1;
    int slices = kFewSlices;
    double seconds = 0;
  };
  struct Repetition {
    double seconds = 0;  // of a call
    double on_core = 1;  // share of the time that its threads were not waiting for a core that others had
    Probe before, after;

    double peak_gflops() const { return (before.gflops + after.gflops) / 2; }
  };
  using Round = std::vector<Repetition>;

  Pace find_pace(const Contender& contender);
  Repetition repeat(const Contender& contender, const Pace& pace);
  Probe probe(int threads, int slices);
  // The calm of each round: that of its least calm repetition.
  std::vector<double> calm_of_rounds(const std::vector<Contender>& contenders, const std::vector<Round>& rounds) const;

  // Medians of the rounds that count, for one contender.
  static Measurement summarise(const std::vector<Contender>& contenders, size_t index,
                               const std::vector<Round>& rounds);

  HarnessOptions options_;
  Instruments instruments_;
  std::map<int, std::vector<double>> read_shares_;  // of all probes of the run, by number of threads
};

}  // namespace heed::bench
