#include "bench/harness.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "bench/process.h"
#include "bench/statistics.h"
#include "heed/parallel/parallel_for.h"

namespace heed::bench {
namespace {

constexpr int kFewestRepetitions = 7;
constexpr int kMostRepetitions = 31;
// At most this many times the wanted repetitions are made in the hope of quiet ones.
constexpr int kMostAttempts = 3;
// Probes around long calls see this share of the call, so that they average over the frequency as the call does.
constexpr double kProbeShare = 0.02;
constexpr double kSliceSeconds = 80e-6;
constexpr int kMostSlices = 100;
// Seconds to wait after a busy round.
constexpr double kFirstPause = 5e-3;
constexpr double kLongestPause = 0.16;
// Probes that tell the quiet level before anything is measured: about 20 ms.
constexpr int kFirstProbes = 40;

// Work a second; bytes where no useful operations are counted.
double speed_of(const Contender& contender, double seconds) {
  return (contender.flops > 0 ? contender.flops : contender.bytes) / seconds;
}

}  // namespace

Instruments real_instruments() {
  Instruments real;
  real.probe = measure_probe;
  real.now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  real.waiting_seconds = waiting_seconds;
  real.pause = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  return real;
}

Harness::Harness(HarnessOptions options, Instruments instruments)
    : options_(options), instruments_(std::move(instruments)) {}

std::vector<Measurement> Harness::measure(const std::vector<Contender>& contenders) {
  std::vector<Pace> paces;
  double round_seconds = 0;
  for (const Contender& contender : contenders) {
    paces.push_back(find_pace(contender));
    round_seconds += paces.back().seconds;
  }
  const double fitting = std::clamp<double>(options_.row_seconds / round_seconds, kFewestRepetitions, kMostRepetitions);
  const auto wanted = static_cast<size_t>(options_.repetitions > 0 ? options_.repetitions : fitting);

  std::vector<Round> rounds;
  std::vector<double> calm;
  size_t quiet = 0;
  double pause = kFirstPause;
  while (quiet < wanted && rounds.size() < wanted * kMostAttempts) {
    Round& round = rounds.emplace_back();
    for (size_t i = 0; i < contenders.size(); ++i) round.push_back(repeat(contenders[i], paces[i]));
    // Judged anew each time: later probes may show that earlier rounds were busy.
    calm = calm_of_rounds(contenders, rounds);
    quiet = static_cast<size_t>(std::ranges::count_if(calm, [](double value) { return !is_busy(value); }));
    // A busy phase may pass: wait for it, longer each time.
    pause = is_busy(calm.back()) ? std::min(2 * pause, kLongestPause) : kFirstPause;
    if (is_busy(calm.back())) instruments_.pause(pause);
  }

  std::vector<Round> chosen;
  for (const size_t index : choose_repetitions(calm, wanted)) chosen.push_back(rounds[index]);
  std::vector<Measurement> results;
  for (size_t i = 0; i < contenders.size(); ++i) {
    Measurement result = summarise(contenders, i, chosen);
    result.repeated = static_cast<int>(rounds.size() - chosen.size());
    result.busy = static_cast<int>(chosen.size() - std::min(quiet, chosen.size()));
    results.push_back(result);
  }
  return results;
}

Measurement Harness::summarise(const std::vector<Contender>& contenders, size_t index,
                               const std::vector<Round>& rounds) {
  const Contender& contender = contenders[index];
  std::vector<double> seconds, peak, of_peak, of_first;
  for (const Round& round : rounds) {
    const Repetition& mine = round[index];
    seconds.push_back(mine.seconds);
    peak.push_back(mine.peak_gflops());
    of_peak.push_back(contender.flops * 1e-9 / mine.seconds / mine.peak_gflops());
    // With the same threads each speed is taken beside the peak of its own moment.
    const bool same_threads = contender.threads == contenders[0].threads;
    of_first.push_back(speed_of(contender, mine.seconds) / speed_of(contenders[0], round[0].seconds) *
                       (same_threads ? round[0].peak_gflops() / mine.peak_gflops() : 1));
  }
  Measurement result;
  result.seconds = median(seconds);
  result.gflops = contender.flops * 1e-9 / result.seconds;
  result.gbps = contender.bytes * 1e-9 / result.seconds;
  result.peak_gflops = median(peak);
  result.of_peak = median(of_peak);
  result.of_first = median(of_first);
  result.repetitions = static_cast<int>(rounds.size());
  return result;
}

Harness::Pace Harness::find_pace(const Contender& contender) {
  if (read_shares_[contender.threads].empty()) {
    for (int i = 0; i < kFirstProbes; ++i) probe(contender.threads, kFewSlices);
  }
  probe(contender.threads, kFewSlices);
  // The first call fetches pages; the second tells the time.
  contender.call();
  const double start = instruments_.now();
  contender.call();
  const double call = std::max(instruments_.now() - start, 1e-9);
  Pace pace;
  pace.calls = std::max(1, static_cast<int>(std::ceil(options_.least_seconds / call)));
  pace.seconds = call * pace.calls;
  pace.slices = std::clamp(static_cast<int>(pace.seconds * kProbeShare / kSliceSeconds), kFewSlices, kMostSlices);
  return pace;
}

Harness::Repetition Harness::repeat(const Contender& contender, const Pace& pace) {
  Repetition result;
  result.before = probe(contender.threads, pace.slices);
  const double waiting_before = instruments_.waiting_seconds();
  const double begin = instruments_.now();
  // Cores that slept need a moment before they are at full speed: a call that does not count.
  if (contender.threads > 1) contender.call();
  const double start = instruments_.now();
  for (int i = 0; i < pace.calls; ++i) contender.call();
  const double end = instruments_.now();
  result.seconds = (end - start) / pace.calls;
  const double waited = instruments_.waiting_seconds() - waiting_before;
  result.on_core = std::max(0.0, 1 - waited / ((end - begin) * contender.threads));
  result.after = probe(contender.threads, pace.slices);
  return result;
}

Probe Harness::probe(int threads, int slices) {
  if (heed::threads() != threads) set_threads(threads);
  const Probe result = instruments_.probe(slices);
  read_shares_[threads].push_back(result.read_share);
  return result;
}

std::vector<double> Harness::calm_of_rounds(const std::vector<Contender>& contenders,
                                            const std::vector<Round>& rounds) const {
  std::map<int, double> quiet;
  for (const auto& [threads, read_shares] : read_shares_) quiet[threads] = quiet_level(read_shares);
  std::vector<double> calm(rounds.size(), 1);
  for (size_t r = 0; r < rounds.size(); ++r) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      const Repetition& each = rounds[r][i];
      const double mine = calm_of(each.before, each.after, quiet.at(contenders[i].threads));
      calm[r] = std::min(calm[r], mine * each.on_core);
    }
  }
  return calm;
}

}  // namespace heed::bench
