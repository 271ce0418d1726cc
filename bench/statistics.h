// Medians, and the choice of the repetitions that count.
#pragma once

#include <cstddef>
#include <vector>

namespace heed::bench {

// The middle value, or the mean of the two middle ones; 0 for none.
double median(std::vector<double> values);

// A repetition is from a busy phase when its calm fell clearly below the best of the run.
inline constexpr double kBusyBelow = 0.93;
bool is_busy(double calm, double best_calm);

// Indices of the `wanted` repetitions that count, given the calm of each: those that are not busy, in order; where
// they are too few, the calmest ones.
std::vector<size_t> choose_repetitions(const std::vector<double>& calm, double best_calm, size_t wanted);

}  // namespace heed::bench
