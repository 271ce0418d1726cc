// Medians, and the choice of the repetitions that count.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/probe.h"

namespace heed::bench {

// The middle value, or the mean of the two middle ones; 0 for none.
double median(std::vector<double> values);

// The value that a share q of the values does not exceed; 0 for none.
double quantile(std::vector<double> values, double q);

// The quiet level of a run, from the read shares of all its probes: the best, but for the few that came out too high
// because an interrupt or a change of frequency hit the multiply-adds and not the reads.
double quiet_level(const std::vector<double>& read_shares);

// How calm a repetition was, 1 at best. Two signs of a busy phase: reads from the first-level cache fall beside
// multiply-adds, and the peak differs before and after.
double calm_of(const Probe& before, const Probe& after, double quiet);

// A repetition is from a busy phase when its calm fell clearly below 1.
inline constexpr double kBusyBelow = 0.94;
inline bool is_busy(double calm) { return calm < kBusyBelow; }

// Indices of the `wanted` repetitions that count, given the calm of each: those that are not busy, in order; where
// they are too few, the calmest of the others too.
std::vector<size_t> choose_repetitions(const std::vector<double>& calm, size_t wanted);

}  // namespace heed::bench
