#include "bench/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "bench/statistics.h"
#include "heed/parallel/parallel_for.h"

namespace heed::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFewestRepetitions = 7;
constexpr int kMostRepetitions = 31;
// At most this many times the wanted repetitions are made in the hope of quiet ones.
constexpr int kMostAttempts = 3;
// Probes around long calls see this share of the call, so that they average over the frequency as the call does.
constexpr double kProbeShare = 0.02;
constexpr double kSliceSeconds = 80e-6;
constexpr int kMostSlices = 100;

double time_calls(const Contender& contender, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) contender.call();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

void use_threads(int count) {
  if (threads() != count) set_threads(count);
}

}  // namespace

Harness::Harness(HarnessOptions options, ProbeFunction probe) : options_(options), probe_(std::move(probe)) {}

std::vector<Measurement> Harness::measure(const std::vector<Contender>& contenders) {
  std::vector<Pace> paces;
  double round_seconds = 0;
  for (const Contender& contender : contenders) {
    paces.push_back(find_pace(contender));
    round_seconds += paces.back().seconds;
  }
  const int fitting = static_cast<int>(std::clamp(options_.row_seconds / round_seconds, 0.0, 1e6));
  const int wanted = options_.repetitions > 0 ? options_.repetitions
                                              : std::clamp(fitting, kFewestRepetitions, kMostRepetitions);
  std::vector<Round> rounds;
  std::vector<double> calm;
  int quiet = 0;
  while (quiet < wanted && static_cast<int>(rounds.size()) < wanted * kMostAttempts) {
    Round& round = rounds.emplace_back();
    for (size_t i = 0; i < contenders.size(); ++i) round.push_back(repeat(contenders[i], paces[i]));
    // The best of the run may have risen, so that earlier rounds now count as busy.
    calm.clear();
    for (const Round& each : rounds) calm.push_back(calm_of(contenders, each));
    quiet = static_cast<int>(std::count_if(calm.begin(), calm.end(), [](double value) { return !is_busy(value, 1); }));
  }
  const std::vector<size_t> chosen = choose_repetitions(calm, 1, static_cast<size_t>(wanted));

  std::vector<Measurement> results;
  for (size_t i = 0; i < contenders.size(); ++i) {
    const Contender& contender = contenders[i];
    std::vector<double> seconds, peak, of_peak, of_first;
    for (const size_t r : chosen) {
      const Repetition& mine = rounds[r][i];
      const Repetition& first = rounds[r][0];
      seconds.push_back(mine.seconds);
      peak.push_back(mine.peak_gflops);
      of_peak.push_back(contender.flops * 1e-9 / mine.seconds / mine.peak_gflops);
      // Work done a second; with the same threads, beside the peak of its own moment.
      double speed = (contender.flops / mine.seconds) / (contenders[0].flops / first.seconds);
      if (contender.threads == contenders[0].threads) speed *= first.peak_gflops / mine.peak_gflops;
      of_first.push_back(speed);
    }
    Measurement result;
    result.seconds = median(seconds);
    result.gflops = contender.flops * 1e-9 / result.seconds;
    result.gbps = contender.bytes * 1e-9 / result.seconds;
    result.peak_gflops = median(peak);
    result.of_peak = median(of_peak);
    result.of_first = median(of_first);
    result.repetitions = static_cast<int>(chosen.size());
    result.repeated = static_cast<int>(rounds.size() - chosen.size());
    result.busy = std::max(0, wanted - quiet);
    results.push_back(result);
  }
  return results;
}

Harness::Pace Harness::find_pace(const Contender& contender) const {
  use_threads(contender.threads);
  // The first call fetches pages and starts threads; the second tells the time.
  contender.call();
  const double call = std::max(time_calls(contender, 1), 1e-9);
  Pace pace;
  pace.calls = std::max(1, static_cast<int>(std::ceil(options_.least_seconds / call)));
  pace.seconds = call * pace.calls;
  pace.slices = std::clamp(static_cast<int>(pace.seconds * kProbeShare / kSliceSeconds), kFewSlices, kMostSlices);
  return pace;
}

Harness::Repetition Harness::repeat(const Contender& contender, const Pace& pace) {
  use_threads(contender.threads);
  const Probe before = probe_(pace.slices);
  Repetition result;
  result.seconds = time_calls(contender, pace.calls);
  const Probe after = probe_(pace.slices);
  result.peak_gflops = (before.gflops + after.gflops) / 2;
  // Two signs of a busy phase: reads fall beside multiply-adds, and the peak differs before and after.
  const double steady = std::min(before.gflops, after.gflops) / std::max(before.gflops, after.gflops);
  result.calm = std::min(before.read_share, after.read_share) * steady;
  double& best = best_calm_[contender.threads];
  best = std::max(best, result.calm);
  return result;
}

double Harness::calm_of(const std::vector<Contender>& contenders, const Round& round) const {
  double calm = 1;
  for (size_t i = 0; i < contenders.size(); ++i) {
    calm = std::min(calm, round[i].calm / best_calm_.at(contenders[i].threads));
  }
  return calm;
}

}  // namespace heed::bench
