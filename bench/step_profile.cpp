#include "bench/step_profile.h"

#include <algorithm>
#include <utility>

namespace heed::bench {

void StepProfile::add(std::string_view op, std::string_view pass) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  auto found = std::ranges::find_if(times_, [&](const OpTime& each) { return each.op == op && each.pass == pass; });
  if (found == times_.end()) found = times_.insert(found, {std::string(op), std::string(pass)});
  ++found->calls;
  found->seconds += seconds;
}

std::vector<OpTime> StepProfile::times() const {
  std::vector<OpTime> result = times_;
  std::ranges::sort(result, std::greater<>(), &OpTime::seconds);
  return result;
}

}  // namespace heed::bench
