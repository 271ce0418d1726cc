#include "bench/statistics.h"

#include <algorithm>
#include <numeric>

namespace heed::bench {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double quiet_level(const std::vector<double>& read_shares) { return quantile(read_shares, 0.9); }

double calm_of(const Probe& before, const Probe& after, double quiet) {
  const double steady = std::min(before.gflops, after.gflops) / std::max(before.gflops, after.gflops);
  return std::min(1.0, std::min(before.read_share, after.read_share) / quiet) * steady;
}

std::vector<size_t> choose_repetitions(const std::vector<double>& calm, size_t wanted) {
  std::vector<size_t> chosen(calm.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  const auto busy = std::stable_partition(chosen.begin(), chosen.end(), [&](size_t i) { return !is_busy(calm[i]); });
  std::stable_sort(busy, chosen.end(), [&](size_t a, size_t b) { return calm[a] > calm[b]; });
  if (chosen.size() > wanted) chosen.resize(wanted);
  return chosen;
}

}  // namespace heed::bench
