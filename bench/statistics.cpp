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

bool is_busy(double calm, double best_calm) { return calm < kBusyBelow * best_calm; }

std::vector<size_t> choose_repetitions(const std::vector<double>& calm, double best_calm, size_t wanted) {
  std::vector<size_t> chosen(calm.size());
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  const auto quiet = std::stable_partition(chosen.begin(), chosen.end(),
                                           [&](size_t i) { return !is_busy(calm[i], best_calm); });
  std::stable_sort(quiet, chosen.end(), [&](size_t a, size_t b) { return calm[a] > calm[b]; });
  if (chosen.size() > wanted) chosen.resize(wanted);
  return chosen;
}

}  // namespace heed::bench
