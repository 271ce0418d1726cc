// A number of threads for the length of a scope.
#pragma once

#include "heed/parallel/parallel_for.h"

namespace heed::test {

class Threads {
 public:
  explicit Threads(int n) { set_threads(n); }
  ~Threads() { set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_ = threads();
};

}  // namespace heed::test
