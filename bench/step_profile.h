// StepProfile: where the time of a training step goes, by op.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "bench/row.h"
#include "heed/autograd/tape_observer.h"

namespace heed::bench {

// What an op took is the time since the op before it: the module that called it is included.
class StepProfile : public TapeObserver {
 public:
  void ran(std::string_view op, Pass pass) override { add(op, pass == Pass::forward ? "forward" : "backward"); }
  // Of what is no op: the optimiser.
  void ran(std::string_view part) { add(part, ""); }

  // The longest first.
  std::vector<OpTime> times() const;

 private:
  void add(std::string_view op, std::string_view pass);

  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
  std::vector<OpTime> times_;
};

}  // namespace heed::bench
