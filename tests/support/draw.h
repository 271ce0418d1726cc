// Draws one random thing after the other, the same for the same seed.
#pragma once

#include <cstdint>

#include "heed/core/rng.h"

namespace heed::test {

class Draw {
 public:
  explicit Draw(uint64_t seed) : rng_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(rng_.bits(at_++) % static_cast<uint64_t>(n)); }
  int64_t between(int64_t least, int64_t most) { return least + below(most - least + 1); }
  bool chance(int64_t one_in) { return below(one_in) == 0; }

 private:
  Rng rng_;
  uint64_t at_ = 0;
};

}  // namespace heed::test
